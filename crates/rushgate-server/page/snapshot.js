// What the server has told last, which every screen of the operator's page shows.

export let latest = null;
let cameAt = 0; // when that was

export function take(snapshot) {
  latest = snapshot;
  cameAt = performance.now();
}

/** The server's clock, as far as it can be known here. */
export const serverNow = () => latest.now_us + Math.round((performance.now() - cameAt) * 1000);
