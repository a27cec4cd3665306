// One clock and one selection for all views of a run on a page.  Each view is a separate module, so
// they find each other by the run's name.

/** @type {any} */
const shared = globalThis;
/** @type {Map<string, Clock>} */
const clocks = shared[Symbol.for("labkit.clocks")] ??= new Map();
const LAG_MS = 250; // the maximum delay behind a running cluster

/** @typedef {(smooth: boolean) => void} Listener smooth: animate marks that have moved */

/**
 * Return the clock of a run, which is created for its first view and removed with its last.
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
    clock.choose(""); // The pointer may have been over a mark of this view.
    if (clock.listeners.size === 0) {
      clock.playing = false;
      if (clocks.get(name) === clock) clocks.delete(name);
    }
  });
  return clock;
}

/** Positions are milliseconds of display time, assigned by labkit/views/widgets/display_clock.py. */
class Clock {
  /** @type {Set<Listener>} */
  listeners = new Set();
  /** @type {number | null} null at first: every view shows its own opening */
  position = null;
  full = 0; // the end of the run
  check = Infinity; // where the final check of a simulated run starts, if there is one
  checks = false; // whether the final check is shown
  stop = Infinity; // where playback stops, if before the end
  speed = 1;
  playing = false;
  follows = false; // keeps up with a running cluster
  touched = false; // once the user has interacted, nothing starts on its own
  kin = "";
  pinned = "";

  /** The last position to show. */
  get end() {
    return this.checks ? this.full : Math.min(this.full, this.check);
  }

  /**
   * Extend the run.
   * @param {number} end
   * @param {number | null} [check]
   */
  reach(end, check) {
    this.full = Math.max(this.full, end);
    this.check = check ?? this.check;
    if (this.follows) this.play();
  }

  /** Show the final check if the position is in it.  @param {number} position */
  seek(position, smooth = false) {
    this.checks ||= position > this.check;
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
      // After a long frame (the tab was in the background), continue where playback stopped.
      // The first frame can have begun before playback.
      const passed = Math.max(0, Math.min(now - last, 100)) * this.speed;
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
   * Highlight all marks of this kin in every view of the run, or with "" only the pinned ones.
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
