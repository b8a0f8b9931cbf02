# SPDX-License-Identifier: Apache-2.0
"""What Grafana does with a dashboard before it asks Prometheus: panels in rows, variables and macros in queries. From its
public documentation ("Prometheus template variables", "Global variables")."""
import re

INTERVAL_S, RANGE_S, RATE_S = 1, 60, 6
ALL = object()

# Escapes of a value in a query: of a variable that may have several values those of a regular expression too.
MANY = re.compile(r"([\\^$*+?.()|\[\]{}'\"])")
ONE = re.compile(r"([\\'\"])")


def panels(dashboard):
    """Every panel with queries, those in folded rows too."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def variables(dashboard):
    return {v["name"]: v for v in dashboard["templating"]["list"]}


def value_of(variable, value):
    if value is ALL:
        assert variable["includeAll"], f"'{variable['name']}' has no 'All'"
        return variable["allValue"]
    if not variable.get("multi"):
        return ONE.sub(r"\\\1", value)
    values = [MANY.sub(r"\\\\\1", v) for v in ([value] if isinstance(value, str) else value)]
    return values[0] if len(values) == 1 else f"({'|'.join(values)})"


def query(dashboard, expression, **chosen):
    """The expression with its macros and variables; what is not chosen is All, or what a text box begins with."""
    macros = {"__rate_interval": f"{RATE_S}s", "__range": f"{RANGE_S}s", "__range_s": str(RANGE_S), "__interval": f"{INTERVAL_S}s",
              "__interval_ms": str(INTERVAL_S * 1000)}
    known = variables(dashboard)

    def put(found):
        name = found[1]
        if name in macros:
            return macros[name]
        variable = known[name]
        if variable["type"] == "textbox":
            return chosen.get(name, variable["query"])
        return value_of(variable, chosen.get(name, ALL))

    return re.sub(r"\$(\w+)", put, expression)


def options(variable, texts):
    """(text, value) of a variable's choices, from the texts that its query gave."""
    if not variable["regex"]:
        return [(t, t) for t in texts]
    pattern, flags = re.fullmatch(r"/(.*)/(\w*)", variable["regex"]).groups()
    assert flags == "g"
    found = []
    for text in texts:
        groups = [m.groupdict() for m in re.finditer(pattern.replace("(?<", "(?P<"), text)]
        shown = next((g["text"] for g in groups if g.get("text")), None)
        value = next((g["value"] for g in groups if g.get("value")), None)
        if shown or value:
            found.append((shown or value, value or shown))
    return sorted(set(found))


def legend(target, labels):
    """A series' name: a label that it has not is nothing."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: labels.get(m[1], ""), target["legendFormat"]).strip()
