"""Models in 8 bits: writes them as ONNX Runtime's tool quantises them, then measures them as `bench.models` does.
`python -m bench.quantized --help`

    python -m bench.quantized --isa avx2 --page docs/benchmarks/quantized_avx2.md

measures on a CPU taken for one without VNNI (`bench.narrow`), and writes a page with times, errors and saturation.
"""

from pathlib import Path

from bench import smart_turn
from bench.arguments import chosen_engines, chosen_models, model_parser
from bench.engines import MODEL_ENGINES
from bench.models import run
from bench.quantized_files import quantize
from bench.quantized_page import page
from bench.saturation import PEERS, saturations

QUANTIZED = "mobilenet_v2,squeezenet1_1,efficientnet_b0,efficientnet_lite0,resnet18,resnet50,unet,vit_small,smart_turn"


def main() -> None:
    """Command line."""
    parser = model_parser("python -m bench.quantized", "Measure models in 8 bits.", MODEL_ENGINES, QUANTIZED)
    parser.set_defaults(engines="cenote,onnxruntime,openvino,litert")
    parser.add_argument("--page", type=Path, help="write a page of times, errors and saturation")
    arguments = parser.parse_args()
    specs = chosen_engines(parser, arguments.engines, MODEL_ENGINES)
    if smart_turn.NAME in arguments.models.split(","):
        smart_turn.write(arguments.folder.resolve())
    models = chosen_models(parser, arguments)
    quantized = [quantize(files) for files in models]
    rows, machine = run([*models, *quantized], specs, arguments)
    if arguments.page:
        found = saturations(quantized, [spec.name for spec in specs if spec.name in PEERS])
        said = {name: getattr(arguments, name) for name in ("isa", "engines", "seconds", "rounds")}
        options = " ".join(f"--{name} {value}" for name, value in said.items() if value)
        command = f"python -m bench.quantized {options}"
        arguments.page.write_text(page(rows, found, command, arguments.isa, machine))


if __name__ == "__main__":
    main()
