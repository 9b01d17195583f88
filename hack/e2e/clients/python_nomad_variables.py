"""Writes, reads, lists and deletes variables through python-nomad, and locks one.

Usage: python_nomad_variables.py PORT MANAGEMENT_SECRET. The server has no variable. Exits with 1 at the first answer
that differs from Nomad's.
"""

import sys

import nomad
from nomad.api.exceptions import BadRequestNomadException, URLNotFoundNomadException, VariableConflict

ITEMS = {"user": "anna", "password": "planted item"}


def refused(kind, action):
    """The answer to a request that is refused in this way."""
    try:
        answer = action()
    except kind as error:
        return error.nomad_resp
    raise SystemExit(f"it was not refused: {answer}")


def index(answer):
    return int(answer.headers["X-Nomad-Index"])


def listed(client):
    """The list of all variables, and its index."""
    answer = client.variables.request(params={"prefix": ""}, method="get")
    return answer.json(), index(answer)


def writes(one):
    first = one.create_variable("app/db", {"Items": ITEMS})
    assert first["Path"] == "app/db" and first["Namespace"] == "default", first
    assert first["CreateIndex"] == first["ModifyIndex"] > 0 and first["Items"] == ITEMS, first
    assert one.get_variable("app/db") == first and "app/db" in one and "missing" not in one
    changed = one.create_variable("app/db", {"Items": {"user": "otto"}}, cas=first["ModifyIndex"])
    assert changed["ModifyIndex"] > first["ModifyIndex"], changed
    assert changed["CreateIndex"] == first["CreateIndex"], changed

    def conflicts(action, expected):
        answer = refused(VariableConflict, action)
        assert answer.status_code == 409 and answer.json() == expected, answer.text

    for stale in (0, first["ModifyIndex"]):
        conflicts(lambda: one.create_variable("app/db", {"Items": ITEMS}, cas=stale), changed)
    conflicts(lambda: one.delete_variable("app/db", cas=first["ModifyIndex"]), changed)
    absent = refused(VariableConflict, lambda: one.create_variable("new", {"Items": ITEMS}, cas=7)).json()
    assert absent["Path"] == "new" and absent["ModifyIndex"] == 0 and not absent["Items"], absent
    answer = refused(URLNotFoundNomadException, lambda: one.get_variable("missing"))
    assert answer.text == "variable not found", answer.text
    answer = refused(BadRequestNomadException, lambda: one.create_variable("app/db", {}))
    assert answer.text == "variable missing required Items object", answer.text


def lists(client):
    client.variable.create_variable("app/web", {"Items": ITEMS})
    client.variable.create_variable("other", {"Items": ITEMS})
    paths = [it["Path"] for it in client.variables]
    assert paths == ["app/db", "app/web", "other"], paths
    prefixed = client.variables.get_variables(prefix="app/")
    assert [it["Path"] for it in prefixed] == ["app/db", "app/web"], prefixed
    assert all("Items" not in it for it in prefixed), prefixed
    assert client.variables["other"]["ModifyIndex"] > 0


def locks(client):
    def operation(name, body):
        return client.variable.request("app/db", params={name: ""}, json=body, method="put")

    acquired = operation("lock-acquire", {"Lock": {"TTL": "20s", "LockDelay": "1s"}}).json()
    held = {"Lock": {"ID": acquired["Lock"]["ID"]}}
    refused(VariableConflict, lambda: operation("lock-acquire", {}))
    refused(VariableConflict, lambda: client.variable.create_variable("app/db", {"Items": ITEMS}))
    before = listed(client)
    answer = operation("lock-renew", held)
    renewed = answer.json()
    assert index(answer) == renewed["ModifyIndex"] == acquired["ModifyIndex"], renewed
    assert "Items" not in renewed and renewed["Lock"] == acquired["Lock"], renewed
    assert listed(client) == before, "a renewal moves no index"
    released = operation("lock-release", held).json()
    assert not released["Items"] and "Lock" not in released, released
    assert client.variable.get_variable("app/db")["Items"] == {"user": "otto"}


def deletes(client):
    for path in ("app/db", "app/web", "other", "other"):
        answer = client.variable.delete_variable(path)
        assert answer.status_code == 204 and answer.text == "", answer.text
    found, at = listed(client)
    assert found == [] and at > 1, (found, at)


def main():
    client = nomad.Nomad(host="127.0.0.1", port=int(sys.argv[1]), timeout=20, token=sys.argv[2])
    found = listed(client)
    assert found == ([], 1), f"a list of nothing has index 1: {found}"
    writes(client.variable)
    lists(client)
    locks(client)
    deletes(client)


main()
