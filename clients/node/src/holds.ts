import { FINAL_HOLD_STATES } from './contract.js'
import type { HoldState } from './types.js'

/** Whether a reservation does not change any more. */
export function isFinal(state: HoldState): boolean {
  return (FINAL_HOLD_STATES as readonly HoldState[]).includes(state)
}
