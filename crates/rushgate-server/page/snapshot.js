// The latest snapshot from the server, shared by all screens of the operator's page.

export let latest = null;
let cameAt = 0; // time of arrival

export function take(snapshot) {
  latest = snapshot;
  cameAt = performance.now();
}

/** An estimate of the server's clock. */
export const serverNow = () => latest.now_us + Math.round((performance.now() - cameAt) * 1000);
