package main

import (
	"context"
	"errors"

	"github.com/hashicorp/nomad/api"
)

const leader = "app/leader"

// times are those of the locks.
func times() *api.VariableLock { return &api.VariableLock{TTL: "20s", LockDelay: "1s"} }

// listed is the index of the list of all variables.
func listed(all *api.Variables) uint64 {
	list, meta, err := all.List(nil)
	read(list, meta, err)
	return meta.LastIndex
}

// locks are acquired, renewed and released; others are refused meanwhile.
func locks(it server, client *api.Client) {
	all := client.Variables()
	items := api.VariableItems{"leader": "one"}
	first := made(all.Create(&api.Variable{Path: leader, Items: items}, nil))
	acquired := made(all.AcquireLock(&api.Variable{Path: leader, Items: items, Lock: times()}, nil))
	holds(acquired.LockID() != "" && acquired.ModifyIndex > first.ModifyIndex, acquired)
	same([]string{acquired.Lock.TTL, acquired.Lock.LockDelay}, []string{"20s", "1s"})
	same(acquired.Items, items)
	same(read(all.Read(leader, nil)), acquired)

	// A renewal moves no index.
	shown := api.Variable{Path: leader, Lock: &api.VariableLock{ID: acquired.LockID()}}
	before := listed(all)
	renewed := made(all.RenewLock(&shown, nil))
	same(renewed.Lock, acquired.Lock)
	same(renewed.ModifyIndex, acquired.ModifyIndex)
	same(listed(all), before)
	same(read(all.Read(leader, nil)), acquired)

	// Others get a variable that shows its name alone.
	refused(409, `"Path":"app/leader"`, last(all.AcquireLock(&api.Variable{Path: leader, Lock: times()}, nil)))
	refused(409, `"Path":"app/leader"`, last(all.Update(&api.Variable{Path: leader, Items: items}, nil)))
	refused(409, `"Path":"app/leader"`, second(all.Delete(leader, nil)))
	other := api.Variable{Path: leader, Lock: &api.VariableLock{ID: manager}}
	refused(409, "attempting to modify locked variable", last(all.RenewLock(&other, nil)))
	refused(409, "attempting to modify locked variable", last(all.ReleaseLock(&other, nil)))
	refused(403, "Permission denied", last(it.as("").Variables().AcquireLock(&shown, nil)))

	// The holder writes and keeps its lock.
	changed := shown
	changed.Items = api.VariableItems{"leader": "still one"}
	written := made(all.Update(&changed, nil))
	same(written.Lock, acquired.Lock)
	holds(written.ModifyIndex > acquired.ModifyIndex, written)
	refused(400, "lock release operation doesn't take variable items", last(all.ReleaseLock(&changed, nil)))

	released := made(all.ReleaseLock(&shown, nil))
	holds(released.Items == nil && released.Lock == nil, released)
	left := read(all.Read(leader, nil))
	holds(left.Lock == nil && left.ModifyIndex > written.ModifyIndex, left)
	same(left.Items, changed.Items)
	refused(409, "variable doesn't hold a lock", last(all.RenewLock(&shown, nil)))
	refused(409, "variable doesn't hold a lock", last(all.ReleaseLock(&shown, nil)))
	missing := api.Variable{Path: "missing", Lock: shown.Lock}
	refused(404, "variable doesn't exist", last(all.RenewLock(&missing, nil)))
	short := api.Variable{Path: leader, Lock: &api.VariableLock{TTL: "9s", LockDelay: "1s"}}
	refused(400, "TTL must be between 10 seconds and 24 hours", last(all.AcquireLock(&short, nil)))
	ok(second(all.Delete(leader, nil)))
}

// locksOfTheHelper are those of the client's own type for locks, which makes its variable.
func locksOfTheHelper(client *api.Client) {
	ctx := context.Background()
	helper := func() *api.Locks {
		one, err := client.Locks(api.WriteOptions{}, api.Variable{Path: leader, Lock: times()})
		ok(err)
		return one
	}
	one, other := helper(), helper()
	path, err := one.Acquire(ctx)
	ok(err)
	same(path, leader)
	_, err = other.Acquire(ctx)
	holds(errors.Is(err, api.ErrLockConflict), err)
	ok(one.Renew(ctx))
	refused(400, "missing lock information", other.Release(ctx))
	ok(one.Release(ctx))
	holds(errors.Is(one.Renew(ctx), api.ErrLockConflict), "a renewal after the release")
	_, err = other.Acquire(ctx)
	ok(err)
	ok(other.Release(ctx))

	// A function below the lock runs once, and the lock is free afterwards.
	runs := 0
	leaser := client.NewLockLeaser(helper())
	ok(leaser.Start(ctx, func(context.Context) error {
		runs++
		_, err := other.Acquire(ctx)
		holds(errors.Is(err, api.ErrLockConflict), err)
		return nil
	}))
	same(runs, 1)
	holds(read(client.Variables().Read(leader, nil)).Lock == nil, "a lock that is free")
	ok(second(client.Variables().Delete(leader, nil)))
}
