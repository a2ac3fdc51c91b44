// Loads a neural network that Cenote compiled to WebAssembly, and runs it:
//
//   const model = await load();                      // the files lie beside this one
//   const { y } = await model.run({ x });            // typed arrays by name; the results are the caller's
//
// There is no other dependency. A page may be opened from any server; threads need cross-origin isolation.

const MODEL = null;

const PAGE = 65536;
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
};
const isNode = typeof process !== "undefined" && !!process.versions?.node;
const count = (shape) => shape.reduce((a, b) => a * b, 1);
const shown = ({ name, dtype, shape }) => `'${name}': ${dtype} ${shape.join("x") || "scalar"}`;

// An input is a typed array, or { data, shape }.
const dataOf = (given) => (ArrayBuffer.isView(given) || !given?.data ? given : given.data);
const fits = (given, shape) =>
  dataOf(given).length === count(shape) && (!given.shape || String([...given.shape]) === String(shape));
const described = (given) =>
  given.shape ? `the shape ${[...given.shape].join("x")} and ${given.data.length} elements` : `${given.length} elements`;

// A module with one instruction of relaxed SIMD, f32x4.relaxed_madd: it is valid where these are known.
const RELAXED = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 62, 1, 60, 0, 253, 12, ...Array(16).fill(0), 253, 12,
  ...Array(16).fill(0), 253, 12, ...Array(16).fill(0), 253, 133, 2, 26, 11,
]);

export const hasRelaxed = () => WebAssembly.validate(RELAXED);

/** Load the model from the folder of its files, by default that of this module. */
export async function load(folder = new URL(".", import.meta.url), { threads = 1, onProgress } = {}) {
  const base = new URL(String(folder).replace(/\/?$/, "/"), import.meta.url);
  const relaxed = "wasm32-relaxed" in MODEL.modules && (hasRelaxed() || !("wasm32" in MODEL.modules));
  const variant = relaxed ? "wasm32-relaxed" : "wasm32";
  if (!Number.isInteger(threads) || threads < 1) throw new RangeError(`threads: ${threads} is no whole number from 1 on`);
  const wanted = Math.min(threads, MODEL.threads ?? 1);
  const isolated = isNode || globalThis.crossOriginIsolated === true;
  const shared = wanted > 1 && isolated;
  const file = (shared ? MODEL.threaded : MODEL.modules)[variant];
  const [module, weights] = await Promise.all([compiled(new URL(file, base)), opened(MODEL.weights, base)]);
  const memory = shared
    ? new WebAssembly.Memory({ initial: MODEL.pages, maximum: MODEL.pages, shared: true })
    : undefined;
  const instance = await WebAssembly.instantiate(module, memory ? { env: { memory } } : {});
  const model = new Model(instance.exports, memory ?? instance.exports.memory, relaxed);
  if (weights) await model.fill(weights, onProgress);
  model.prepare(MODEL.weightsBytes);
  if (shared) await model.start(module, wanted);
  return model;
}

/** Compile a module while it comes in. */
async function compiled(url) {
  if (isNode && url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetched(url);
  if (response.headers.get("Content-Type")?.startsWith("application/wasm")) return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** Begin to read a file of weights: chunks, and their bytes in all. */
async function opened(name, base) {
  if (!name) return null;
  const url = new URL(name, base);
  if (isNode && url.protocol === "file:") {
    const { createReadStream } = await import("node:fs");
    return createReadStream(url, { highWaterMark: 1 << 22 });
  }
  return (await fetched(url)).body;
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

class Model {
  #exports;
  #memory;
  #entries;
  #turn = Promise.resolve();
  #crew = null;
  #failed = null;
  #prepared = 0;

  constructor(exports, memory, relaxed) {
    this.#exports = exports;
    this.#memory = memory;
    this.relaxed = relaxed;
    this.threads = 1;
    this.entries = MODEL.entries.map(({ inputs, outputs }) => ({ inputs, outputs }));
    this.#entries = MODEL.entries.map((entry, number) => {
      const prefix = number ? `e${number}_` : "";
      const views = (side) =>
        entry[side].map(({ dtype, shape }, i) => {
          // An address beyond 2 GB reads as a negative number.
          const place = exports[`${prefix}${side.slice(0, -1)}${i}`].value >>> 0;
          return new ARRAYS[dtype](memory.buffer, place, count(shape));
        });
      return { ...entry, number, prefix, memory: { inputs: views("inputs"), outputs: views("outputs") } };
    });
  }

  get inputs() {
    return this.entries[0].inputs;
  }

  get outputs() {
    return this.entries[0].outputs;
  }

  /** Put the weights in their place as they come in. */
  async fill(chunks, onProgress) {
    const total = MODEL.weightsBytes;
    const place = new Uint8Array(this.#memory.buffer, this.#exports[MODEL.place].value >>> 0, total);
    let done = 0;
    for await (const chunk of pieces(chunks)) {
      if (done + chunk.length > total) throw new Error(`${MODEL.weights} has more than the ${total} bytes of this model`);
      place.set(chunk, done);
      done += chunk.length;
      this.prepare(done);
      onProgress?.(done, total);
    }
    if (done !== total) throw new Error(`${MODEL.weights} has ${done} bytes, where this model needs ${total}`);
  }

  /** Bring weights that are stored as they were into the form that is computed with, as far as they have come in. */
  prepare(bytes) {
    const ends = MODEL.preparable;
    for (; this.#prepared < ends.length && ends[this.#prepared] <= bytes; this.#prepared++)
      this.#exports.prepare(this.#prepared);
  }

  /** Start the threads beside this one. */
  async start(module, threads) {
    this.#exports.stack.value = PAGE;
    this.#crew = await Crew.of(module, this.#memory, threads);
    this.threads = threads;
  }

  /** Compute the outputs for typed arrays by name. Runs of one model take turns. */
  run(inputs) {
    const result = this.#turn.then(() => this.#run(inputs));
    this.#turn = result.catch(() => {});
    return result;
  }

  #run(inputs) {
    if (!this.#exports) throw new Error("the model has been closed");
    if (this.#failed) throw new Error(`the model cannot run any more: ${this.#failed.message}`, { cause: this.#failed });
    const entry = this.#chosen(inputs);
    entry.inputs.forEach(({ name }, i) => entry.memory.inputs[i].set(dataOf(inputs[name])));
    try {
      if (this.#crew) this.#crew.run(entry, this.#exports[`${entry.prefix}run_step`]);
      else this.#exports[`${entry.prefix}run`]();
    } catch (error) {
      this.#failed = error;
      throw error;
    }
    return Object.fromEntries(entry.outputs.map(({ name }, i) => [name, entry.memory.outputs[i].slice()]));
  }

  /** The entry that the inputs fit: by their shapes where these are given, else by their lengths. */
  #chosen(inputs) {
    if (inputs === null || typeof inputs !== "object")
      throw new TypeError("run takes an object of typed arrays by input name");
    const declared = this.inputs;
    const listed = declared.map(shown).join(", ");
    for (const name of Object.keys(inputs))
      if (!declared.some((each) => each.name === name))
        throw new TypeError(`'${name}' is no input of the model; its inputs: ${listed}`);
    for (const each of declared) {
      const given = dataOf(inputs[each.name]);
      const wanted = ARRAYS[each.dtype];
      if (given === undefined) throw new TypeError(`input '${each.name}' is missing; the model's inputs: ${listed}`);
      if (!(given instanceof wanted))
        throw new TypeError(
          `'${each.name}' is a ${given?.constructor?.name ?? typeof given}, where the model takes a ${wanted.name}`,
        );
    }
    const fitting = this.#entries.filter((entry) => entry.inputs.every((each) => fits(inputs[each.name], each.shape)));
    if (fitting.length === 1) return fitting[0];
    const known = this.#entries.map((entry) => entry.inputs.map(shown).join(", ")).join(" or ");
    const given = declared.map(({ name }) => `'${name}' has ${described(inputs[name])}`).join(", ");
    const advice = fitting.length ? "; say which by { data, shape }" : "";
    throw new RangeError(`${given}; the model takes ${known}${advice}`);
  }

  /** End the threads and let go of the memory. */
  close() {
    this.#crew?.end();
    this.#exports = this.#memory = this.#crew = null;
    this.#entries = [];
  }
}

async function* pieces(chunks) {
  if (chunks[Symbol.asyncIterator]) return yield* chunks;
  const reader = chunks.getReader(); // a browser whose streams cannot be iterated
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// ---- threads ------------------------------------------------------------------------------------------------------
//
// All threads walk the steps; each takes parts of a step from a counter, and waits until all parts of the step are done.
// A thread that comes late finds nothing left to do, and nobody waits for it. Counters count on from run to run, and
// around at 32 bits.

const [JOB, ENTRY, FAILED, STOPPED, FIRST] = [0, 1, 2, 3, 4];
const WORKER = "a thread of a Cenote model";
const SPINS = 20000; // looks at a counter, some 50 microseconds, before a thread sleeps

// Places of an entry's counters: its runs so far, then two of each step.
const placesOf = (entries) => {
  let at = FIRST;
  return entries.map(({ steps }) => {
    const place = at;
    at += 1 + 2 * steps.length;
    return place;
  });
};

function walk(step, steps, counters, place, thread) {
  const round = Atomics.load(counters, place) - 1;
  steps.forEach(([items, grain], number) => {
    const parts = Math.ceil(items / grain);
    const next = place + 1 + 2 * number;
    const before = Math.imul(round, parts);
    const left = (value) => (before + parts - value) | 0;
    for (let part; left((part = Atomics.load(counters, next))) > 0; ) {
      if (Atomics.compareExchange(counters, next, part, (part + 1) | 0) !== part) continue;
      const begin = ((part - before) | 0) * grain;
      step(number, begin, Math.min(begin + grain, items), thread);
      Atomics.add(counters, next + 1, 1);
    }
    while (left(Atomics.load(counters, next + 1)) > 0)
      if (Atomics.load(counters, FAILED)) throw new Error("a thread of the model failed");
  });
}

class Crew {
  static async of(module, memory, threads) {
    const crew = new Crew();
    crew.places = placesOf(MODEL.entries);
    const last = MODEL.entries.length - 1;
    const length = crew.places[last] + 1 + 2 * MODEL.entries[last].steps.length;
    crew.counters = new Int32Array(new SharedArrayBuffer(4 * length));
    crew.workers = await Promise.all(
      Array.from({ length: threads - 1 }, (_, i) => crew.worker({ module, memory, counters: crew.counters, thread: i + 1 })),
    );
    return crew;
  }

  async worker(task) {
    const url = new URL(import.meta.url);
    const made = isNode
      ? new (await import("node:worker_threads")).Worker(url, { workerData: { [WORKER]: task } })
      : new Worker(url, { type: "module", name: WORKER });
    await new Promise((resolve, reject) => {
      if (isNode) {
        made.once("message", resolve);
        made.once("error", reject);
      } else {
        made.onmessage = resolve;
        made.onerror = (event) => reject(new Error(`a thread did not start: ${event.message ?? "no message"}`));
        made.postMessage(task);
      }
    });
    if (isNode) made.unref();
    return made;
  }

  run(entry, step) {
    const place = this.places[entry.number];
    Atomics.add(this.counters, place, 1);
    Atomics.store(this.counters, ENTRY, entry.number);
    Atomics.add(this.counters, JOB, 1);
    Atomics.notify(this.counters, JOB);
    try {
      walk(step, entry.steps, this.counters, place, 0);
    } catch (error) {
      Atomics.store(this.counters, FAILED, 1);
      throw error;
    }
  }

  end() {
    Atomics.store(this.counters, STOPPED, 1);
    Atomics.add(this.counters, JOB, 1);
    Atomics.notify(this.counters, JOB);
    for (const worker of this.workers) worker.terminate();
  }
}

async function work({ module, memory, counters, thread }, ready) {
  const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
  exports.stack.value = PAGE * (thread + 1);
  const places = placesOf(MODEL.entries);
  ready();
  for (let job = Atomics.load(counters, JOB); ; job = waited(counters, job)) {
    if (Atomics.load(counters, STOPPED)) return;
    const number = Atomics.load(counters, ENTRY);
    if (Atomics.load(counters, places[number]) === 0) continue;
    try {
      walk(exports[`${number ? `e${number}_` : ""}run_step`], MODEL.entries[number].steps, counters, places[number], thread);
    } catch (error) {
      Atomics.store(counters, FAILED, 1);
      throw error;
    }
  }
}

/** Wait for another job than this one, and return its number. */
function waited(counters, job) {
  for (let spin = 0; spin < SPINS; spin++) if (Atomics.load(counters, JOB) !== job) return Atomics.load(counters, JOB);
  while (Atomics.load(counters, JOB) === job) Atomics.wait(counters, JOB, job);
  return Atomics.load(counters, JOB);
}

if (isNode) {
  const { workerData, parentPort } = await import("node:worker_threads");
  const task = workerData?.[WORKER];
  if (task) work(task, () => parentPort.postMessage("ready"));
} else if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope && self.name === WORKER) {
  self.onmessage = ({ data }) => work(data, () => self.postMessage("ready"));
}
