"""Whole models in bfloat16: Cenote beside OpenVINO, and its own float32. `python -m bench.bfloat16 --help`"""

from bench.arguments import chosen_engines, chosen_models, model_parser
from bench.engines import BFLOAT_ENGINES
from bench.models import run

MODELS = "mobilenet_v2,squeezenet1_1,resnet18,resnet50,vgg16"
# Largest error / largest output at which an answer is right: random weights amplify the rounding of each layer, to 0.11
# on ResNet-50 in either engine. The report shows each error.
TOLERANCE = 0.2


def main() -> None:
    """Command line."""
    parser = model_parser("python -m bench.bfloat16", "Measure models in bfloat16.", BFLOAT_ENGINES, MODELS)
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, BFLOAT_ENGINES)
    run(chosen_models(parser, arguments), specs, arguments, TOLERANCE)


if __name__ == "__main__":
    main()
