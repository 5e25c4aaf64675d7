/** What an error carries besides its message. */
export interface ErrorDetails {
  /** Stable code: that of the HTTP API where it has one. */
  code?: string
  /** The argument or setting that the error is about. */
  field?: string
  /** What to do. */
  hint?: string
  /** Delay in ms after which a retry of the same call may succeed. */
  retryAfterMs?: number
  cause?: unknown
}

/** Base of every error of this package. */
export class RushgateError extends Error {
  readonly code: string
  readonly field?: string
  readonly hint?: string
  readonly retryAfterMs?: number

  constructor(message: string, { code = 'bug', field, hint, retryAfterMs, cause }: ErrorDetails = {}) {
    super(hint === undefined ? message : `${message} ${hint}`, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.code = code
    this.field = field
    this.hint = hint
    this.retryAfterMs = retryAfterMs
  }

  /** Whether a retry of the same call may succeed. */
  get retryable(): boolean {
    return false
  }
}

/** An argument is out of range, malformed, or excluded by another one. Nothing was changed. */
export class InvalidError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'invalid', ...details })
  }
}

/** The named sale, SKU, task or schedule does not exist. */
export class NotFoundError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'not_found', ...details })
  }
}

/** Another client holds the lock, and the wait has timed out. */
export class LockBusyError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'lock_busy', ...details })
  }

  override get retryable(): boolean {
    return true
  }
}

/** The lock was lost: its lease expired, or an operator force-released it. Another client may hold it. */
export class LockLostError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'not_held', ...details })
  }
}

/** The claim of a task was lost: another worker may have the task. */
export class ClaimLostError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'stale', ...details })
  }
}

/** A client asked to cancel the task that a handler runs. */
export class CanceledError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'cancelled', ...details })
  }
}

/** A handler exceeded its timeout, or the deadline of its task. */
export class TimeoutError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'timeout', ...details })
  }
}

/** The store or server did not answer in time. Nothing was changed, unless the outcome is unknown. */
export class UnavailableError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'unavailable', ...details })
  }

  /** Whether the call may have taken effect. */
  get outcomeUnknown(): boolean {
    return false
  }

  override get retryable(): boolean {
    return true
  }
}

/** No answer arrived: the call may have taken effect. */
export class OutcomeUnknownError extends UnavailableError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'outcome_unknown', ...details })
  }

  override get outcomeUnknown(): boolean {
    return true
  }
}

/** The store is full. Nothing was written. */
export class FullError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'full', ...details })
  }

  override get retryable(): boolean {
    return true
  }
}

/** The token, the password or the rights do not allow the call. */
export class ForbiddenError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'forbidden', ...details })
  }
}

/** The state does not allow the call, such as an idempotency key that was used for another request. */
export class ConflictError extends RushgateError {}

/** The store is not set up for this package: the function library is missing, or speaks another protocol. */
export class MisconfiguredError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'misconfigured', ...details })
  }
}

/** The store or server answered something that this package cannot read. The data stays where it is. */
export class CorruptError extends RushgateError {
  constructor(message: string, details: ErrorDetails = {}) {
    super(message, { code: 'corrupt', ...details })
  }
}

/** The client is closed. */
export class ClosedError extends RushgateError {
  constructor() {
    super('The client is closed.', { code: 'closed' })
  }
}
