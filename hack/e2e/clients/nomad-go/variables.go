package main

import (
	"errors"
	"slices"

	"github.com/hashicorp/nomad/api"
)

// conflict is the variable of a refused check-and-set.
func conflict(err error) *api.Variable {
	var conflict api.ErrCASConflict
	if !errors.As(err, &conflict) {
		fail("no conflict: %v", err)
	}
	return conflict.Conflict
}

// variables are written, read, listed and deleted, with check-and-set and without.
func variables(it server, client *api.Client) {
	all := client.Variables()
	items := api.VariableItems{"user": "anna", "password": "planted item"}
	first := made(all.Create(&api.Variable{Path: "app/db", Items: items}, nil))
	same([]string{first.Namespace, first.Path}, []string{"default", "app/db"})
	same(first.Items, items)
	holds(first.CreateIndex > 0 && first.ModifyIndex == first.CreateIndex, first)
	holds(first.CreateTime > 0 && first.ModifyTime == first.CreateTime, first)
	same(read(all.Read("app/db", nil)), first)
	same(read(all.GetVariableItems("app/db", nil)), items)

	changed := *first
	changed.Items = api.VariableItems{"user": "otto"}
	updated := made(all.Update(&changed, nil))
	same(updated.CreateIndex, first.CreateIndex)
	holds(updated.ModifyIndex > first.ModifyIndex, updated)
	same(read(all.Peek("app/db", nil)).Items, changed.Items)

	stale := *first
	same(conflict(last(all.CheckedUpdate(&stale, nil))), updated)
	again := *updated
	again.Items = items
	third := made(all.CheckedUpdate(&again, nil))
	holds(third.ModifyIndex > updated.ModifyIndex, third)
	same(conflict(last(all.CheckedCreate(&api.Variable{Path: "app/db", Items: items}, nil))), third)
	made(all.CheckedCreate(&api.Variable{Path: "app/web", Items: items}, nil))
	made(all.Create(&api.Variable{Path: "other", Items: items}, nil))

	var paths []string
	for _, one := range read(all.List(nil)) {
		holds(one.ModifyIndex > 0 && one.Namespace == "default", one)
		paths = append(paths, one.Path)
	}
	same(paths, []string{"app/db", "app/web", "other"})
	prefixed := read(all.PrefixList("app/", nil))
	holds(len(prefixed) == 2 && prefixed[0].Path == "app/db", prefixed)

	_, _, err := all.Read("missing", nil)
	holds(errors.Is(err, api.ErrVariablePathNotFound), err)
	holds(read(all.Peek("missing", nil)) == nil, "a variable that is not there")
	refused(400, "missing required Items", last(all.Create(&api.Variable{Path: "empty"}, nil)))
	refused(400, "invalid path", last(all.Create(&api.Variable{Path: "a b", Items: items}, nil)))
	reserved := api.Variable{Path: "nomad/own", Items: items}
	refused(400, "", last(all.Create(&reserved, nil)))
	refused(403, "Permission denied", last(it.as("").Variables().Read("app/db", nil)))

	conflict(second(all.CheckedDelete("app/db", first.ModifyIndex, nil)))
	ok(second(all.CheckedDelete("app/db", third.ModifyIndex, nil)))
	ok(second(all.Delete("app/web", nil)))
	ok(second(all.Delete("app/web", nil)))
	ok(second(all.Delete("other", nil)))
	holds(len(read(all.List(nil))) == 0, "variables")
}

// variableRights are those of the paths that a policy names.
func variableRights(it server, client *api.Client) {
	const rules = `namespace "default" {
  variables {
    path "app/*" { capabilities = ["read", "list"] }
    path "app/out" { capabilities = ["write"] }
  }
}`
	written(client.ACLPolicies().Upsert(&api.ACLPolicy{Name: "app", Rules: rules}, nil))
	token := made(client.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{"app"}}, nil))
	own := it.as(token.SecretID).Variables()
	items := api.VariableItems{"a": "b"}
	for _, path := range []string{"app/in", "other"} {
		made(client.Variables().Create(&api.Variable{Path: path, Items: items}, nil))
	}
	same(read(own.Read("app/in", nil)).Items, items)
	refused(403, "Permission denied", last(own.Create(&api.Variable{Path: "app/in", Items: items}, nil)))
	refused(403, "Permission denied", last(own.Read("other", nil)))
	same(made(own.Create(&api.Variable{Path: "app/out", Items: items}, nil)).Items, items)
	refused(403, "Permission denied", last(own.Read("app/out", nil)))
	listed := read(own.List(nil))
	holds(!slices.ContainsFunc(listed, func(one *api.VariableMetadata) bool {
		return one.Path == "other"
	}), listed)
	for _, path := range []string{"app/in", "app/out", "other"} {
		ok(second(client.Variables().Delete(path, nil)))
	}
	written(client.ACLTokens().Delete(token.AccessorID, nil))
	written(client.ACLPolicies().Delete("app", nil))
}
