// SPDX-License-Identifier: Apache-2.0
// The address of what is shown: #/gpu/3?span=hour&only=GPU-.. - a view, and what was chosen in it. Whoever gets it sees the same.

/* {path, params}: of the hash, which a skip link may use too. */
export function readAddress() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", params: new URLSearchParams(query ?? "") };
}

/* Writes choices without a step for Back; null removes one. */
export function writeAddress(values) {
  const { path, params } = readAddress();
  for (const [name, value] of Object.entries(values))
    if (value === null || value === undefined)
      params.delete(name);
    else
      params.set(name, value);
  const made = `#${path}${params.size ? `?${params}` : ""}`;
  if (made !== (location.hash || "#/"))
    history.replaceState(null, "", made);
}
