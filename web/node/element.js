// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text from outside becomes text nodes only; there is no way here to make markup of it.

/* h("p", {class: "quiet", onclick: f, "aria-label": "x"}, "text", child, [more]). Absent children are left out. */
export function h(tag, options, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === undefined || value === null || value === false)
      continue;
    if (name.startsWith("on"))
      made.addEventListener(name.slice(2), value);
    else
      made.setAttribute(name, value === true ? "" : value);
  }
  add(made, children);
  return made;
}

export function add(to, children) {
  for (const child of children.flat(Infinity))
    if (child !== undefined && child !== null && child !== false && child !== "")
      to.append(child);
}

/* Replaces what is inside. */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

/* Text that changes each second: a node is written only where its text is another. */
export function say(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

/* The same for text or one element, which is another where its text or class is. */
export function put(element, content) {
  const there = element.firstElementChild;
  if (typeof content === "string" && !there)
    say(element, content);
  else if (typeof content === "string" || element.childNodes.length !== 1 || !there || there.className !== content.className || element.textContent !== content.textContent)
    fill(element, content);
}

export function mark(element, name, value) {
  if (value === undefined || value === null || value === false)
    element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value))
    element.setAttribute(name, value);
}

/* Keeps one child of `parent` per item, in the items' order, without touching those that stay as they are: focus, open
 * details and what is selected survive. `make(item)` gives an element; `update(element, item)` is called each time. */
export function each(parent, items, key, make, update) {
  const old = parent.madeOf ?? new Map(), now = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (now.has(name))
      continue;
    const element = old.get(name) ?? make(item);
    now.set(name, element);
    if (element === at)
      at = at.nextElementSibling;
    else
      parent.insertBefore(element, at);
    update?.(element, item);
  }
  for (const [name, element] of old)
    if (!now.has(name))
      element.remove();
  parent.madeOf = now;
}

/* A value, or why there is none: never a zero. */
export function absent(why) {
  return h("span", { class: "absent" }, h("span", { "aria-hidden": "true" }, "– "), why);
}

/* A table from column heads and rows of cells; texts of a head are scope=col, the first cell of a row its head. */
export function table(caption, heads, rows, empty) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "spoken" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.number && "number", title: head.title }, head.text ?? head)))),
      h("tbody", {}, rows.length ? rows.map((cells) => h("tr", {}, cells.map((cell, i) => (i === 0
        ? h("th", { scope: "row" }, cell) : h("td", { class: heads[i]?.number && "number" }, cell)))))
        : h("tr", {}, h("td", { colspan: heads.length, class: "quiet" }, empty ?? "nothing")))));
}
