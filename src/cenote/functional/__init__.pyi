"""What `__init__.py` offers, for type checkers."""

from cenote.functional.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from cenote.functional.choice.bags import (
    embedding_bag as embedding_bag,
)
from cenote.functional.choice.bags import (
    nms as nms,
)
from cenote.functional.choice.indexing import (
    embedding as embedding,
)
from cenote.functional.choice.indexing import (
    gather as gather,
)
from cenote.functional.choice.indexing import (
    index_select as index_select,
)
from cenote.functional.choice.indexing import (
    take as take,
)
from cenote.functional.choice.indexing import (
    take_along_dim as take_along_dim,
)
from cenote.functional.choice.masks import (
    masked_select as masked_select,
)
from cenote.functional.choice.masks import (
    nonzero as nonzero,
)
from cenote.functional.choice.order import (
    argmax as argmax,
)
from cenote.functional.choice.order import (
    argmin as argmin,
)
from cenote.functional.choice.order import (
    argsort as argsort,
)
from cenote.functional.choice.order import (
    one_hot as one_hot,
)
from cenote.functional.choice.order import (
    sort as sort,
)
from cenote.functional.choice.order import (
    topk as topk,
)
from cenote.functional.choice.order import (
    where as where,
)
from cenote.functional.choice.scattering import (
    scatter as scatter,
)
from cenote.functional.choice.scattering import (
    scatter_add as scatter_add,
)
from cenote.functional.choice.scattering import (
    scatter_reduce as scatter_reduce,
)
from cenote.functional.convolution import (
    conv1d as conv1d,
)
from cenote.functional.convolution import (
    conv2d as conv2d,
)
from cenote.functional.convolution import (
    conv3d as conv3d,
)
from cenote.functional.convolution import (
    conv_transpose1d as conv_transpose1d,
)
from cenote.functional.convolution import (
    conv_transpose2d as conv_transpose2d,
)
from cenote.functional.convolution import (
    conv_transpose3d as conv_transpose3d,
)
from cenote.functional.elementwise.activations import (
    celu as celu,
)
from cenote.functional.elementwise.activations import (
    elu as elu,
)
from cenote.functional.elementwise.activations import (
    gelu as gelu,
)
from cenote.functional.elementwise.activations import (
    hardshrink as hardshrink,
)
from cenote.functional.elementwise.activations import (
    hardsigmoid as hardsigmoid,
)
from cenote.functional.elementwise.activations import (
    hardswish as hardswish,
)
from cenote.functional.elementwise.activations import (
    hardtanh as hardtanh,
)
from cenote.functional.elementwise.activations import (
    leaky_relu as leaky_relu,
)
from cenote.functional.elementwise.activations import (
    logsigmoid as logsigmoid,
)
from cenote.functional.elementwise.activations import (
    mish as mish,
)
from cenote.functional.elementwise.activations import (
    prelu as prelu,
)
from cenote.functional.elementwise.activations import (
    relu as relu,
)
from cenote.functional.elementwise.activations import (
    relu6 as relu6,
)
from cenote.functional.elementwise.activations import (
    selu as selu,
)
from cenote.functional.elementwise.activations import (
    sigmoid as sigmoid,
)
from cenote.functional.elementwise.activations import (
    silu as silu,
)
from cenote.functional.elementwise.activations import (
    softplus as softplus,
)
from cenote.functional.elementwise.activations import (
    softshrink as softshrink,
)
from cenote.functional.elementwise.activations import (
    softsign as softsign,
)
from cenote.functional.elementwise.activations import (
    tanh as tanh,
)
from cenote.functional.elementwise.activations import (
    tanhshrink as tanhshrink,
)
from cenote.functional.elementwise.activations import (
    threshold as threshold,
)
from cenote.functional.elementwise.arithmetic import (
    abs as abs,
)
from cenote.functional.elementwise.arithmetic import (
    add as add,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_and as bitwise_and,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_left_shift as bitwise_left_shift,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_not as bitwise_not,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_or as bitwise_or,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_right_shift as bitwise_right_shift,
)
from cenote.functional.elementwise.arithmetic import (
    bitwise_xor as bitwise_xor,
)
from cenote.functional.elementwise.arithmetic import (
    clamp as clamp,
)
from cenote.functional.elementwise.arithmetic import (
    div as div,
)
from cenote.functional.elementwise.arithmetic import (
    eq as eq,
)
from cenote.functional.elementwise.arithmetic import (
    floor_divide as floor_divide,
)
from cenote.functional.elementwise.arithmetic import (
    fmod as fmod,
)
from cenote.functional.elementwise.arithmetic import (
    ge as ge,
)
from cenote.functional.elementwise.arithmetic import (
    gt as gt,
)
from cenote.functional.elementwise.arithmetic import (
    isfinite as isfinite,
)
from cenote.functional.elementwise.arithmetic import (
    isinf as isinf,
)
from cenote.functional.elementwise.arithmetic import (
    isnan as isnan,
)
from cenote.functional.elementwise.arithmetic import (
    le as le,
)
from cenote.functional.elementwise.arithmetic import (
    logical_and as logical_and,
)
from cenote.functional.elementwise.arithmetic import (
    logical_not as logical_not,
)
from cenote.functional.elementwise.arithmetic import (
    logical_or as logical_or,
)
from cenote.functional.elementwise.arithmetic import (
    logical_xor as logical_xor,
)
from cenote.functional.elementwise.arithmetic import (
    lt as lt,
)
from cenote.functional.elementwise.arithmetic import (
    maximum as maximum,
)
from cenote.functional.elementwise.arithmetic import (
    minimum as minimum,
)
from cenote.functional.elementwise.arithmetic import (
    mul as mul,
)
from cenote.functional.elementwise.arithmetic import (
    ne as ne,
)
from cenote.functional.elementwise.arithmetic import (
    neg as neg,
)
from cenote.functional.elementwise.arithmetic import (
    pow as pow,
)
from cenote.functional.elementwise.arithmetic import (
    remainder as remainder,
)
from cenote.functional.elementwise.arithmetic import (
    sign as sign,
)
from cenote.functional.elementwise.arithmetic import (
    square as square,
)
from cenote.functional.elementwise.arithmetic import (
    sub as sub,
)
from cenote.functional.elementwise.arithmetic import (
    to as to,
)
from cenote.functional.elementwise.recorder import (
    Traced as Traced,
)
from cenote.functional.elementwise.recorder import (
    fused as fused,
)
from cenote.functional.elementwise.unary import (
    acos as acos,
)
from cenote.functional.elementwise.unary import (
    acosh as acosh,
)
from cenote.functional.elementwise.unary import (
    asin as asin,
)
from cenote.functional.elementwise.unary import (
    asinh as asinh,
)
from cenote.functional.elementwise.unary import (
    atan as atan,
)
from cenote.functional.elementwise.unary import (
    atanh as atanh,
)
from cenote.functional.elementwise.unary import (
    ceil as ceil,
)
from cenote.functional.elementwise.unary import (
    cos as cos,
)
from cenote.functional.elementwise.unary import (
    cosh as cosh,
)
from cenote.functional.elementwise.unary import (
    erf as erf,
)
from cenote.functional.elementwise.unary import (
    exp as exp,
)
from cenote.functional.elementwise.unary import (
    exp2 as exp2,
)
from cenote.functional.elementwise.unary import (
    expm1 as expm1,
)
from cenote.functional.elementwise.unary import (
    floor as floor,
)
from cenote.functional.elementwise.unary import (
    log as log,
)
from cenote.functional.elementwise.unary import (
    log1p as log1p,
)
from cenote.functional.elementwise.unary import (
    log2 as log2,
)
from cenote.functional.elementwise.unary import (
    log10 as log10,
)
from cenote.functional.elementwise.unary import (
    reciprocal as reciprocal,
)
from cenote.functional.elementwise.unary import (
    round as round,
)
from cenote.functional.elementwise.unary import (
    rsqrt as rsqrt,
)
from cenote.functional.elementwise.unary import (
    sin as sin,
)
from cenote.functional.elementwise.unary import (
    sinh as sinh,
)
from cenote.functional.elementwise.unary import (
    sqrt as sqrt,
)
from cenote.functional.elementwise.unary import (
    tan as tan,
)
from cenote.functional.elementwise.unary import (
    trunc as trunc,
)
from cenote.functional.exponentials import (
    log_softmax as log_softmax,
)
from cenote.functional.exponentials import (
    softmax as softmax,
)
from cenote.functional.movement import (
    cat as cat,
)
from cenote.functional.movement import (
    channel_shuffle as channel_shuffle,
)
from cenote.functional.movement import (
    flip as flip,
)
from cenote.functional.movement import (
    pad as pad,
)
from cenote.functional.movement import (
    permute as permute,
)
from cenote.functional.movement import (
    pixel_shuffle as pixel_shuffle,
)
from cenote.functional.movement import (
    pixel_unshuffle as pixel_unshuffle,
)
from cenote.functional.movement import (
    repeat_interleave as repeat_interleave,
)
from cenote.functional.movement import (
    roll as roll,
)
from cenote.functional.movement import (
    split as split,
)
from cenote.functional.movement import (
    stack as stack,
)
from cenote.functional.movement import (
    tile as tile,
)
from cenote.functional.movement import (
    transpose as transpose,
)
from cenote.functional.normalization import (
    batch_norm as batch_norm,
)
from cenote.functional.normalization import (
    group_norm as group_norm,
)
from cenote.functional.normalization import (
    instance_norm as instance_norm,
)
from cenote.functional.normalization import (
    layer_norm as layer_norm,
)
from cenote.functional.normalization import (
    local_response_norm as local_response_norm,
)
from cenote.functional.normalization import (
    normalize as normalize,
)
from cenote.functional.normalization import (
    rms_norm as rms_norm,
)
from cenote.functional.pool.adaptive import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
)
from cenote.functional.pool.adaptive import (
    adaptive_avg_pool2d as adaptive_avg_pool2d,
)
from cenote.functional.pool.adaptive import (
    adaptive_avg_pool3d as adaptive_avg_pool3d,
)
from cenote.functional.pool.adaptive import (
    adaptive_max_pool1d as adaptive_max_pool1d,
)
from cenote.functional.pool.adaptive import (
    adaptive_max_pool2d as adaptive_max_pool2d,
)
from cenote.functional.pool.adaptive import (
    adaptive_max_pool3d as adaptive_max_pool3d,
)
from cenote.functional.pool.average import (
    avg_pool1d as avg_pool1d,
)
from cenote.functional.pool.average import (
    avg_pool2d as avg_pool2d,
)
from cenote.functional.pool.average import (
    avg_pool3d as avg_pool3d,
)
from cenote.functional.pool.backward import (
    adaptive_avg_pool1d_backward as adaptive_avg_pool1d_backward,
)
from cenote.functional.pool.backward import (
    adaptive_avg_pool2d_backward as adaptive_avg_pool2d_backward,
)
from cenote.functional.pool.backward import (
    adaptive_avg_pool3d_backward as adaptive_avg_pool3d_backward,
)
from cenote.functional.pool.backward import (
    adaptive_max_pool1d_backward as adaptive_max_pool1d_backward,
)
from cenote.functional.pool.backward import (
    adaptive_max_pool2d_backward as adaptive_max_pool2d_backward,
)
from cenote.functional.pool.backward import (
    adaptive_max_pool3d_backward as adaptive_max_pool3d_backward,
)
from cenote.functional.pool.backward import (
    avg_pool1d_backward as avg_pool1d_backward,
)
from cenote.functional.pool.backward import (
    avg_pool2d_backward as avg_pool2d_backward,
)
from cenote.functional.pool.backward import (
    avg_pool3d_backward as avg_pool3d_backward,
)
from cenote.functional.pool.backward import (
    blur_pool_backward as blur_pool_backward,
)
from cenote.functional.pool.backward import (
    dilation_backward as dilation_backward,
)
from cenote.functional.pool.backward import (
    erosion_backward as erosion_backward,
)
from cenote.functional.pool.backward import (
    fractional_max_pool2d_backward as fractional_max_pool2d_backward,
)
from cenote.functional.pool.backward import (
    fractional_max_pool3d_backward as fractional_max_pool3d_backward,
)
from cenote.functional.pool.backward import (
    gem_pool_backward as gem_pool_backward,
)
from cenote.functional.pool.backward import (
    global_avg_pool_backward as global_avg_pool_backward,
)
from cenote.functional.pool.backward import (
    global_lp_pool_backward as global_lp_pool_backward,
)
from cenote.functional.pool.backward import (
    global_max_pool_backward as global_max_pool_backward,
)
from cenote.functional.pool.backward import (
    lp_pool1d_backward as lp_pool1d_backward,
)
from cenote.functional.pool.backward import (
    lp_pool2d_backward as lp_pool2d_backward,
)
from cenote.functional.pool.backward import (
    lp_pool3d_backward as lp_pool3d_backward,
)
from cenote.functional.pool.backward import (
    max_pool1d_backward as max_pool1d_backward,
)
from cenote.functional.pool.backward import (
    max_pool2d_backward as max_pool2d_backward,
)
from cenote.functional.pool.backward import (
    max_pool3d_backward as max_pool3d_backward,
)
from cenote.functional.pool.backward import (
    max_unpool1d_backward as max_unpool1d_backward,
)
from cenote.functional.pool.backward import (
    max_unpool2d_backward as max_unpool2d_backward,
)
from cenote.functional.pool.backward import (
    max_unpool3d_backward as max_unpool3d_backward,
)
from cenote.functional.pool.backward import (
    median_pool_backward as median_pool_backward,
)
from cenote.functional.pool.backward import (
    min_pool_backward as min_pool_backward,
)
from cenote.functional.pool.backward import (
    ps_roi_pool_backward as ps_roi_pool_backward,
)
from cenote.functional.pool.backward import (
    roi_align_backward as roi_align_backward,
)
from cenote.functional.pool.backward import (
    roi_pool_backward as roi_pool_backward,
)
from cenote.functional.pool.backward import (
    soft_pool_backward as soft_pool_backward,
)
from cenote.functional.pool.backward import (
    spatial_pyramid_pool_backward as spatial_pyramid_pool_backward,
)
from cenote.functional.pool.backward import (
    stochastic_pool_backward as stochastic_pool_backward,
)
from cenote.functional.pool.fractional import (
    fractional_max_pool2d as fractional_max_pool2d,
)
from cenote.functional.pool.fractional import (
    fractional_max_pool3d as fractional_max_pool3d,
)
from cenote.functional.pool.global_pools import (
    global_avg_pool as global_avg_pool,
)
from cenote.functional.pool.global_pools import (
    global_lp_pool as global_lp_pool,
)
from cenote.functional.pool.global_pools import (
    global_max_pool as global_max_pool,
)
from cenote.functional.pool.lp import (
    lp_pool1d as lp_pool1d,
)
from cenote.functional.pool.lp import (
    lp_pool2d as lp_pool2d,
)
from cenote.functional.pool.lp import (
    lp_pool3d as lp_pool3d,
)
from cenote.functional.pool.max import (
    dilation as dilation,
)
from cenote.functional.pool.max import (
    erosion as erosion,
)
from cenote.functional.pool.max import (
    max_pool1d as max_pool1d,
)
from cenote.functional.pool.max import (
    max_pool2d as max_pool2d,
)
from cenote.functional.pool.max import (
    max_pool3d as max_pool3d,
)
from cenote.functional.pool.max import (
    min_pool as min_pool,
)
from cenote.functional.pool.pyramid import (
    spatial_pyramid_pool as spatial_pyramid_pool,
)
from cenote.functional.pool.regions import (
    ps_roi_pool as ps_roi_pool,
)
from cenote.functional.pool.regions import (
    roi_align as roi_align,
)
from cenote.functional.pool.regions import (
    roi_pool as roi_pool,
)
from cenote.functional.pool.unpool import (
    max_unpool1d as max_unpool1d,
)
from cenote.functional.pool.unpool import (
    max_unpool2d as max_unpool2d,
)
from cenote.functional.pool.unpool import (
    max_unpool3d as max_unpool3d,
)
from cenote.functional.pool.weighted import (
    blur_pool as blur_pool,
)
from cenote.functional.pool.weighted import (
    gem_pool as gem_pool,
)
from cenote.functional.pool.weighted import (
    median_pool as median_pool,
)
from cenote.functional.pool.weighted import (
    soft_pool as soft_pool,
)
from cenote.functional.pool.weighted import (
    stochastic_pool as stochastic_pool,
)
from cenote.functional.products import (
    addmm as addmm,
)
from cenote.functional.products import (
    bmm as bmm,
)
from cenote.functional.products import (
    linear as linear,
)
from cenote.functional.products import (
    matmul as matmul,
)
from cenote.functional.products import (
    mm as mm,
)
from cenote.functional.random import (
    alpha_dropout as alpha_dropout,
)
from cenote.functional.random import (
    dropout as dropout,
)
from cenote.functional.random import (
    dropout1d as dropout1d,
)
from cenote.functional.random import (
    dropout2d as dropout2d,
)
from cenote.functional.random import (
    dropout3d as dropout3d,
)
from cenote.functional.random import (
    feature_alpha_dropout as feature_alpha_dropout,
)
from cenote.functional.random import (
    stochastic_depth as stochastic_depth,
)
from cenote.functional.recurrent import (
    gru as gru,
)
from cenote.functional.recurrent import (
    lstm as lstm,
)
from cenote.functional.recurrent import (
    rnn_relu as rnn_relu,
)
from cenote.functional.recurrent import (
    rnn_tanh as rnn_tanh,
)
from cenote.functional.reductions import (
    amax as amax,
)
from cenote.functional.reductions import (
    amin as amin,
)
from cenote.functional.reductions import (
    cumprod as cumprod,
)
from cenote.functional.reductions import (
    cumsum as cumsum,
)
from cenote.functional.reductions import (
    logsumexp as logsumexp,
)
from cenote.functional.reductions import (
    mean as mean,
)
from cenote.functional.reductions import (
    norm as norm,
)
from cenote.functional.reductions import (
    prod as prod,
)
from cenote.functional.reductions import (
    std as std,
)
from cenote.functional.reductions import (
    sum as sum,
)
from cenote.functional.reductions import (
    var as var,
)
from cenote.functional.sampling import (
    affine_grid as affine_grid,
)
from cenote.functional.sampling import (
    deform_conv2d as deform_conv2d,
)
from cenote.functional.sampling import (
    fold as fold,
)
from cenote.functional.sampling import (
    grid_sample as grid_sample,
)
from cenote.functional.sampling import (
    interpolate as interpolate,
)
from cenote.functional.sampling import (
    unfold as unfold,
)
from cenote.functional.shape import (
    pool_output_shape as pool_output_shape,
)

__all__: list[str]
