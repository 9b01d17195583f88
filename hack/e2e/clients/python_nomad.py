"""Steers jobs through python-nomad, a client of Nomad that does not know Drover.

Usage: python_nomad.py PORT. Needs a cluster with two nodes. Exits with 1 at the first answer that differs from Nomad's.
"""

import base64
import sys
import time

import nomad

PATIENCE_SECONDS = 60


def service(count, canary, version):
    """A service whose tasks sleep; `version` only changes its environment."""
    return {
        "ID": "web",
        "Name": "web",
        "Type": "service",
        "Datacenters": ["dc1"],
        "TaskGroups": [
            {
                "Name": "web",
                "Count": count,
                "Scaling": {"Min": 1, "Max": 4},
                "Update": {
                    "MaxParallel": 1,
                    "Canary": canary,
                    "HealthCheck": "task_states",
                    "MinHealthyTime": 100_000_000,
                    "HealthyDeadline": 60_000_000_000,
                    "ProgressDeadline": 120_000_000_000,
                },
                "Migrate": {
                    "MaxParallel": 1,
                    "HealthCheck": "task_states",
                    "MinHealthyTime": 100_000_000,
                    "HealthyDeadline": 60_000_000_000,
                },
                "Tasks": [sleeper({"VERSION": version})],
            }
        ],
    }


def sleeper(env):
    return {
        "Name": "task",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["600"]},
        "Env": env,
        "KillTimeout": 1_000_000_000,
        "Resources": {"CPU": 20, "MemoryMB": 16},
    }


def batch(name, **blocks):
    task = sleeper({})
    task["Config"] = {"command": "/bin/true"}
    task.update(blocks.pop("task", {}))
    return {
        "ID": name,
        "Name": name,
        "Type": "batch",
        "Datacenters": ["dc1"],
        "TaskGroups": [{"Name": "group", "Count": 1, "Tasks": [task]}],
        **blocks,
    }


def eventually(what, check):
    """The first true value of `check`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {PATIENCE_SECONDS} s")
        time.sleep(0.1)


def must(condition, what):
    if not condition:
        raise SystemExit(what)


class Steps:
    """The steps, in the order in which they run."""

    def __init__(self, port):
        self.client = nomad.Nomad(host="127.0.0.1", port=port, timeout=10)

    def running(self, version=None):
        return [
            alloc
            for alloc in self.client.job.get_allocations("web")
            if alloc["ClientStatus"] == "running"
            and alloc["DesiredStatus"] == "run"
            and version in (None, alloc["JobVersion"])
        ]

    def deployment(self, status):
        deployment = self.client.job.get_deployment("web")
        return deployment if deployment and deployment["Status"] == status else None

    def promotes_a_canary(self):
        jobs = self.client.job
        jobs.register_job("web", {"Job": service(2, 1, "one")})
        eventually("the first version", lambda: self.deployment("successful"))
        jobs.register_job("web", {"Job": service(2, 1, "two")})

        def waits():
            found = self.deployment("running")
            group = found and found["TaskGroups"]["web"]
            return found if group and group["HealthyAllocs"] == 1 else None

        found = eventually("a healthy canary", waits)
        text = found["StatusDescription"]
        must(text == "Deployment is running but requires manual promotion", text)
        must(len(self.running(version=0)) == 2, "the old version shrank before the promotion")
        answer = self.client.deployment.promote_deployment_all(found["ID"])
        must(answer["EvalID"], f"the promotion made no evaluation: {answer}")
        eventually("the promoted deployment", lambda: self.deployment("successful"))
        must(len(self.running(version=1)) == 2, "the new version is not complete")

    def reverts(self):
        answer = self.client.job.revert_job("web", 0)
        must(answer["EvalID"], f"the revert made no evaluation: {answer}")

        def promoted():
            found = self.deployment("running")
            if found and found["TaskGroups"]["web"]["HealthyAllocs"] >= 1:
                self.client.deployment.promote_deployment_all(found["ID"])
            return self.deployment("successful") and len(self.running(version=2)) == 2

        eventually("the reverted version", promoted)

    def scales(self):
        answer = self.client.job.request(
            "web", "scale", method="post", json={"Count": 3, "Target": {"Group": "web"}}
        ).json()
        must(answer["EvalID"], f"scaling made no evaluation: {answer}")
        eventually("three instances", lambda: len(self.running()) == 3)
        eventually("the deployment", lambda: self.deployment("successful"))
        policies = self.client.scaling.get_scaling_policies(job="web")
        must(len(policies) == 1, f"scaling policies: {policies}")
        self.client.scaling.get_scaling_policy(policies[0]["ID"])
        try:
            self.client.job.request(
                "web", "scale", method="post", json={"Count": 5, "Target": {"Group": "web"}}
            )
        except nomad.api.exceptions.BaseNomadException:
            return
        raise SystemExit("a count above the maximum was accepted")

    def drains(self):
        busy = {alloc["NodeID"] for alloc in self.running()}
        node = sorted(busy)[0]
        spec = {"Deadline": 600_000_000_000, "IgnoreSystemJobs": False}
        self.client.node.drain_node_with_spec(node, spec)
        eventually("the drain", lambda: self.client.node.get_node(node)["DrainStrategy"] is None)
        read = self.client.node.get_node(node)
        must(read["SchedulingEligibility"] == "ineligible", "a drained node is eligible")
        must(read["LastDrain"]["Status"] == "complete", f"last drain: {read['LastDrain']}")

        def moved():
            running = self.running()
            return len(running) == 3 and all(alloc["NodeID"] != node for alloc in running)

        eventually("three instances elsewhere", moved)
        self.client.node.eligible_node(node, eligible=True)

    def dispatches(self):
        payload = {"DispatchPayload": {"File": "input"}}
        parent = batch(
            "work",
            ParameterizedJob={"Payload": "required", "MetaRequired": ["k"]},
            task=payload,
        )
        self.client.job.register_job("work", {"Job": parent})
        encoded = base64.b64encode(b"hi").decode()
        answer = self.client.job.dispatch_job("work", payload=encoded, meta={"k": "v"})
        child = answer["DispatchedJobID"]
        must(child.startswith("work/dispatch-"), f"the child's id: {child}")
        eventually("the child's end", lambda: self.client.job.get_job(child)["Status"] == "dead")
        allocs = self.client.job.get_allocations(child)
        must([a["ClientStatus"] for a in allocs] == ["complete"], f"the child's end: {allocs}")

    def forces_a_periodic_launch(self):
        often = {"Enabled": True, "SpecType": "cron", "Spec": "0 0 1 1 *", "TimeZone": "UTC"}
        self.client.job.register_job("nightly", {"Job": batch("nightly", Periodic=often)})
        answer = self.client.job.periodic_job("nightly")
        must(answer["EvalID"], f"the launch made no evaluation: {answer}")
        children = eventually(
            "the launched child",
            lambda: [
                job
                for job in self.client.jobs.get_jobs(prefix="nightly/periodic-")
                if job["Status"] == "dead"
            ],
        )
        must(len(children) == 1, f"children: {children}")


def main():
    steps = Steps(int(sys.argv[1]))
    for step in (
        steps.promotes_a_canary,
        steps.reverts,
        steps.scales,
        steps.drains,
        steps.dispatches,
        steps.forces_a_periodic_launch,
    ):
        step()
        print(f"passed: {step.__name__}", flush=True)


if __name__ == "__main__":
    main()
