// One clock and one selection for all views of a run on a page, though each view is a module of its
// own: they find each other by the run's name.

const clocks = globalThis[Symbol.for("labkit.clocks")] ??= new Map();
const LAG_MS = 250; // how far what is shown may be behind a running cluster

/** The clock of that run; made by the first view that asks, gone with the last. */
export function join(name, listener, signal) {
  if (!clocks.has(name)) clocks.set(name, new Clock());
  const clock = clocks.get(name);
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

/** Positions are milliseconds of display, as labkit/widgets/pace.py gives them. */
class Clock {
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

  /** The run reaches that far now. */
  reach(end) {
    this.end = Math.max(this.end, end);
    if (this.follows) this.play();
  }

  seek(position, smooth = false) {
    this.position = Math.max(0, Math.min(position, this.end));
    this.tell(smooth);
  }

  play(stop = Infinity) {
    this.stop = stop;
    if (this.playing) return;
    this.playing = true;
    let last = performance.now();
    const frame = (now) => {
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

  /** All marks of this kin light up, in every view of the run; "": none but what is pinned. */
  choose(kin) {
    if (this.kin === (kin || this.pinned)) return;
    this.kin = kin || this.pinned;
    this.tell(false);
  }

  pin(kin) {
    this.pinned = this.pinned === kin ? "" : kin;
    this.kin = "";
    this.choose(kin);
  }

  tell(smooth) {
    for (const listener of this.listeners) listener(smooth);
  }
}
