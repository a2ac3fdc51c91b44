"""TypeScript types of an exported model."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cenote.core.errors import UnsupportedError
from cenote.export.program import ExportedProgram, NamedTensor

# Arrays of JavaScript by the types of elements. Booleans are bytes; numbers of 16 bits have no array everywhere.
ARRAYS = {
    "float32": "Float32Array",
    "float64": "Float64Array",
    "int8": "Int8Array",
    "int16": "Int16Array",
    "int32": "Int32Array",
    "int64": "BigInt64Array",
    "uint8": "Uint8Array",
    "uint16": "Uint16Array",
    "uint32": "Uint32Array",
    "uint64": "BigUint64Array",
    "bool": "Uint8Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
}

_TEXT = """/** A tensor of the model: its name, the type of its elements, its sizes. */
export interface Tensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** An input: its elements, with its sizes where the model was exported for several of one length. */
export type Input<A> = A | { readonly data: A; readonly shape: readonly number[] };

export interface Inputs {
%INPUTS%
}

export interface Outputs {
%OUTPUTS%
}

export interface LoadOptions {
  /** Threads of a run, at most those that the model was exported for. A page needs cross-origin isolation for them. */
  threads?: number;
  /** Called while the weights come in. */
  onProgress?: (loadedBytes: number, totalBytes: number) => void;
}

export interface Model {
  /** Inputs and outputs of each set of sizes that the model was exported for. */
  readonly entries: readonly { readonly inputs: readonly Tensor[]; readonly outputs: readonly Tensor[] }[];
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly threads: number;
  readonly relaxed: boolean;
  /** Compute the outputs, which are arrays of their own. Runs of one model take turns. */
  run(inputs: Inputs): Promise<Outputs>;
  /** End the threads and let go of the memory. */
  close(): void;
}

/** Load the model from the folder of its files, by default that of this module. */
export function load(folder?: string | URL, options?: LoadOptions): Promise<Model>;
"""


def declarations(program: ExportedProgram) -> str:
    """Return the text of NAME.d.mts."""
    first = program.entries[0]
    return _TEXT.replace("%INPUTS%", _fields(first.inputs, "Input<{}>")).replace(
        "%OUTPUTS%", _fields(first.outputs)
    )


def _fields(tensors: Sequence[NamedTensor], form: str = "{}") -> str:
    return "\n".join(f"  {json.dumps(each.name)}: {form.format(array_of(each))};" for each in tensors)


def array_of(tensor: NamedTensor) -> str:
    """Return the class of JavaScript for a tensor. Raises UnsupportedError where there is none."""
    name = tensor.type.dtype.name
    if name not in ARRAYS:
        raise UnsupportedError(
            f"'{tensor.name}' has elements of type {name}, for which JavaScript has no array"
        )
    return ARRAYS[name]
