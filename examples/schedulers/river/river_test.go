// SPDX-License-Identifier: Apache-2.0

// Package river tests adapters/river. River needs PostgreSQL, so these tests
// call the middlewares as its workers do.
package river

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"

	locks "github.com/getsetlock/getsetlock/adapters/river"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func newClient(t *testing.T, w *redistest.World) *lock.Client {
	t.Helper()
	backend, err := modern.New(w.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{Clock: w.Clock(redistest.Skew{}), Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

func TestPeriodicJobIsWorkedOnce(t *testing.T) {
	w := redistest.New(t)
	var regions []rivertype.WorkerMiddleware
	for range 2 {
		once, err := locks.Once(newClient(t, w), tick.Config{Period: time.Minute, Spread: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		regions = append(regions, once)
	}
	worked := 0
	work := func(context.Context) error { worked++; return nil }
	job := &rivertype.JobRow{Kind: "report", Attempt: 1}
	for _, once := range regions {
		if err := once.Work(t.Context(), job, work); err != nil {
			t.Error(err)
		}
	}
	if worked != 1 {
		t.Errorf("worked %d times", worked)
	}
	again := &rivertype.JobRow{Kind: "report", Attempt: 2}
	var snooze *rivertype.JobSnoozeError
	if err := regions[0].Work(t.Context(), again, work); !errors.As(err, &snooze) || worked != 1 {
		t.Errorf("a second attempt while the key is taken: %v", err)
	}
	w.Pass(10 * time.Second)
	if err := regions[0].Work(t.Context(), again, work); err != nil || worked != 2 {
		t.Errorf("a second attempt when the key is free: %v", err)
	}
}

func TestUniqueJobIsSnoozedWhileAnotherRuns(t *testing.T) {
	w := redistest.New(t)
	name := func(job *rivertype.JobRow) string { return "customer:" + string(job.EncodedArgs) }
	here := locks.Unique(newClient(t, w), time.Minute, name)
	there := locks.Unique(newClient(t, w), time.Minute, name)
	job := &rivertype.JobRow{Kind: "bill", Attempt: 1, EncodedArgs: []byte(`{"id":7}`)}
	failed := errors.New("no money")
	err := here.Work(t.Context(), job, func(ctx context.Context) error {
		var snooze *rivertype.JobSnoozeError
		err := there.Work(ctx, job, func(context.Context) error { t.Error("both worked"); return nil })
		if !errors.As(err, &snooze) || snooze.Duration != time.Minute {
			t.Errorf("the other job: %v", err)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("the error of the job became %v", err)
	}
}
