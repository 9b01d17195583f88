"""Manages access control through python-nomad, and logs in with a token that PyJWT signed.

Usage: python_nomad_acl.py PORT MANAGEMENT_SECRET. Exits with 1 at the first answer that differs from Nomad's.
"""

import json
import sys
import time
import urllib.error
import urllib.request

import jwt
import nomad
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from nomad.api.exceptions import BaseNomadException, URLNotAuthorizedNomadException

READERS = 'namespace "default" {\n  policy = "read"\n}\n'


def client(port, secret=None):
    return nomad.Nomad(host="127.0.0.1", port=port, timeout=20, token=secret)


def refused(action):
    """Whether the action is refused with 403."""
    try:
        action()
    except URLNotAuthorizedNomadException:
        return True
    except BaseNomadException as error:
        response = error.nomad_resp
        assert response is not None and response.status_code == 403, error
        return True
    return False


def put(port, path, body, secret=None):
    """A request beside python-nomad, which knows no auth methods."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), method="PUT"
    )
    if secret:
        request.add_header("X-Nomad-Token", secret)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def policies(manager):
    manager.acl.create_policy("readers", {"Name": "readers", "Description": "read", "Rules": READERS})
    policy = manager.acl.get_policy("readers")
    assert policy["Rules"] == READERS and policy["CreateIndex"] > 0, policy
    assert [it["Name"] for it in manager.acl.get_policies()] == ["readers"]


def tokens(manager, port):
    made = manager.acl.create_token({"Name": "r", "Type": "client", "Policies": ["readers"], "Global": False})
    assert manager.acl.get_token(made["AccessorID"]) == made, "a token reads as it was created"
    listed = [it for it in manager.acl.get_tokens() if it["AccessorID"] == made["AccessorID"]]
    assert len(listed) == 1 and "SecretID" not in listed[0], listed
    reader = client(port, made["SecretID"])
    assert reader.acl.get_self_token()["AccessorID"] == made["AccessorID"]
    assert reader.jobs.get_jobs() == []
    assert refused(reader.nodes.get_nodes)
    assert refused(client(port).jobs.get_jobs)
    changed = dict(made, Name="renamed")
    assert manager.acl.update_token(made["AccessorID"], changed)["Name"] == "renamed"
    assert manager.acl.delete_token(made["AccessorID"])
    assert refused(reader.jobs.get_jobs)


def logins(port, secret):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    config = {
        "JWTValidationPubKeys": [public.decode()],
        "BoundAudiences": ["drover"],
        "ClaimMappings": {"team": "team"},
        "SigningAlgs": ["RS256"],
    }
    method = {"Name": "ci", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": config}
    status, answer = put(port, "/v1/acl/auth-method", method, secret)
    assert status == 200, answer
    rule = {"AuthMethod": "ci", "Selector": 'value.team == "readers"', "BindType": "policy", "BindName": "readers"}
    status, answer = put(port, "/v1/acl/binding-rule", rule, secret)
    assert status == 200, answer

    def login(claims, algorithm="RS256", with_key=key):
        token = jwt.encode(claims, with_key, algorithm=algorithm)
        return put(port, "/v1/acl/login", {"AuthMethodName": "ci", "LoginToken": token})

    soon = int(time.time()) + 600
    status, token = login({"aud": "drover", "exp": soon, "team": "readers"})
    assert status == 200 and token["Policies"] == ["readers"], token
    assert client(port, token["SecretID"]).jobs.get_jobs() == []
    status, answer = login({"aud": "drover", "exp": soon, "team": "others"})
    assert status == 400 and "no role or policy bindings matched" in answer, answer
    status, answer = login({"aud": "vault", "exp": soon, "team": "readers"})
    assert status == 401, answer
    status, answer = login({"aud": "drover", "exp": soon, "team": "readers"}, "HS256", "x" * 32)
    assert status == 401, answer
    status, answer = login({"aud": "drover", "exp": soon - 6000, "team": "readers"})
    assert status == 401, answer


def namespaces(manager):
    manager.namespace.create_namespace({"Name": "dev", "Description": "developers"})
    assert manager.namespace.get_namespace("dev")["Description"] == "developers"
    assert sorted(it["Name"] for it in manager.namespaces.get_namespaces()) == ["default", "dev"]
    manager.namespace.delete_namespace("dev")


def main():
    port, secret = int(sys.argv[1]), sys.argv[2]
    manager = client(port, secret)
    assert manager.acl.get_self_token()["Type"] == "management"
    policies(manager)
    tokens(manager, port)
    logins(port, secret)
    namespaces(manager)
    assert manager.acl.delete_policy("readers")


main()
