package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// fail ends the program; the line is that of the check.
func fail(format string, values ...any) {
	for depth := 1; depth < 10; depth++ {
		_, file, line, ok := runtime.Caller(depth)
		if ok && !strings.HasSuffix(file, "/check.go") {
			fmt.Fprintf(os.Stderr, "%s:%d: ", file[strings.LastIndex(file, "/")+1:], line)
			break
		}
	}
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

// ok fails unless the error is nil.
func ok(err error) {
	if err != nil {
		fail("%v", err)
	}
}

// written fails unless a write was answered with 200 and an index.
func written(meta *api.WriteMeta, err error) {
	ok(err)
	if meta == nil || meta.LastIndex == 0 {
		fail("a write was answered without an index: %+v", meta)
	}
}

// made is written for a write that answers with an object.
func made[T any](object T, meta *api.WriteMeta, err error) T {
	written(meta, err)
	return object
}

// read fails unless a read was answered with 200 and an index.
func read[T any](object T, meta *api.QueryMeta, err error) T {
	ok(err)
	if meta == nil || meta.LastIndex == 0 {
		fail("a read was answered without an index: %+v", meta)
	}
	return object
}

// same fails unless both are equal in every field.
func same(seen, expected any) {
	if !reflect.DeepEqual(seen, expected) {
		fail("seen     %+v\nexpected %+v", seen, expected)
	}
}

// holds fails unless the condition is true.
func holds(condition bool, seen any) {
	if !condition {
		fail("it does not hold for %+v", seen)
	}
}

// refused fails unless the call was answered with this status and a text that has `part`.
func refused(status int, part string, err error) {
	var unexpected api.UnexpectedResponseError
	if !errors.As(err, &unexpected) {
		fail("no answer with status %d: %v", status, err)
	}
	if unexpected.StatusCode() != status || !strings.Contains(unexpected.Body(), part) {
		fail("expected %d with %q: %v", status, part, err)
	}
}

// last is the error of a call with three results.
func last[A, B any](_ A, _ B, err error) error { return err }

// second is the error of a call with two results.
func second[A any](_ A, err error) error { return err }
