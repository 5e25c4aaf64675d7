import * as contract from './contract.js'
import type { HoldState } from './types.js'

/** Whether a reservation does not change any more. */
export function isFinal(state: HoldState): boolean {
  return (contract.FINAL_STATE as readonly HoldState[]).includes(state)
}
