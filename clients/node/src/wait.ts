/** Monotonic time in ms. */
export function now(): number {
  return performance.now()
}

/** Resolves after `ms`. Rejects with the signal's reason if that is aborted first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Bell().wait(ms, signal)
}

/** Resolves or rejects as `promise` does, or rejects with `late()` after `ms`. */
export async function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}

/** A signal that can be rung before or during a wait, so that a ring between two waits is not missed. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined
  readonly #heard: (() => void) | undefined

  /** `heard` is called at each ring. */
  constructor(heard?: () => void) {
    this.#heard = heard
  }

  /** Ends the current wait, or the next one at once. */
  ring(): void {
    this.#rung = true
    this.#wake?.()
    this.#heard?.()
  }

  /** Waits for a ring, for at most `ms`. Rejects with the signal's reason if that is aborted first. */
  async wait(ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (!this.#rung) await this.#sleep(ms, signal)
    this.#rung = false
    signal?.throwIfAborted()
  }

  async #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    let wake: (() => void) | undefined
    try {
      await new Promise<void>((resolve) => {
        wake = () => resolve()
        this.#wake = wake
        timer = setTimeout(wake, Math.min(ms, MAX_TIMER_MS))
        signal?.addEventListener('abort', wake)
      })
    } finally {
      this.#wake = undefined
      clearTimeout(timer)
      if (wake) signal?.removeEventListener('abort', wake)
    }
  }
}

/** The longest time that a timer of Node can have. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Delays between attempts: exponential from 25 ms to 500 ms, with jitter. */
export class Pauses {
  #next = 25

  draw(): number {
    const longest = this.#next
    this.#next = Math.min(longest * 2, 500)
    return longest / 2 + Math.random() * longest / 2
  }
}
