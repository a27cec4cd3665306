// One clock and one selection for all views of a run on a page, though each view is a module of its
// own: they find each other by the run's name.

/** @type {any} */
const shared = globalThis;
/** @type {Map<string, Clock>} */
const clocks = shared[Symbol.for("labkit.clocks")] ??= new Map();
const LAG_MS = 250; // how far what is shown may be behind a running cluster

/** @typedef {(smooth: boolean) => void} Listener smooth: what moved slides to its place */

/**
 * The clock of that run; made by the first view that asks, gone with the last.
 * @param {string} name
 * @param {Listener} listener
 * @param {AbortSignal} signal
 */
export function join(name, listener, signal) {
  const clock = clocks.get(name) ?? new Clock();
  clocks.set(name, clock);
  clock.listeners.add(listener);
  signal.addEventListener("abort", () => {
    clock.listeners.delete(listener);
    if (clock.listeners.size === 0) {
      clock.playing = false;
      if (clocks.get(name) === clock) clocks.delete(name);
    }
  });
  return clock;
}

/** Positions are milliseconds of display, as labkit/views/widgets/display_clock.py gives them. */
class Clock {
  /** @type {Set<Listener>} */
  listeners = new Set();
  /** @type {number | null} none yet: every view shows what it opens at */
  position = null;
  end = 0;
  stop = Infinity; // where playing ends, if before the end
  speed = 1;
  playing = false;
  follows = false; // keeps up with a running cluster
  touched = false; // by the user: nothing begins by itself from then on
  kin = "";
  pinned = "";

  /** The run reaches that far now.  @param {number} end */
  reach(end) {
    this.end = Math.max(this.end, end);
    if (this.follows) this.play();
  }

  /** @param {number} position */
  seek(position, smooth = false) {
    this.position = Math.max(0, Math.min(position, this.end));
    this.tell(smooth);
  }

  play(stop = Infinity) {
    this.stop = stop;
    if (this.playing) return;
    this.playing = true;
    let last = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (!this.playing) return;
      const end = Math.min(this.end, this.stop), at = this.position ?? 0, left = end - at;
      // After a long frame (another tab was in front) the run goes on where it was.
      const passed = Math.min(now - last, 100) * this.speed;
      last = now;
      if (left <= 0) return this.pause();
      this.seek(
        Math.min(end, at + (this.follows ? Math.max(passed, left * passed / LAG_MS) : passed)),
        true,
      );
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    this.tell(false);
  }

  pause() {
    this.playing = false;
    this.tell(false);
  }

  /**
   * All marks of this kin light up, in every view of the run; "": none but what is pinned.
   * @param {string} kin
   */
  choose(kin) {
    if (this.kin === (kin || this.pinned)) return;
    this.kin = kin || this.pinned;
    this.tell(false);
  }

  /** @param {string} kin */
  pin(kin) {
    this.pinned = this.pinned === kin ? "" : kin;
    this.kin = "";
    this.choose(kin);
  }

  /** @param {boolean} smooth */
  tell(smooth) {
    for (const listener of this.listeners) listener(smooth);
  }
}
