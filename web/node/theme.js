// SPDX-License-Identifier: Apache-2.0
// Dark and light: as the system has it until somebody chooses; the choice is kept in this browser.
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let chosen = null;

try {
  chosen = localStorage.getItem("stoker-theme");
} catch { /* a browser that keeps nothing: as the system has it */ }

function apply() {
  document.documentElement.dataset.theme = ["dark", "light"].includes(chosen) ? chosen : dark.matches ? "dark" : "light";
  for (const told of listeners)
    told();
}

export function switchTheme() {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("stoker-theme", chosen);
  } catch { /* for this visit, then */ }
  apply();
}

export const onTheme = (told) => listeners.add(told);
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

dark.addEventListener("change", apply);
apply();
