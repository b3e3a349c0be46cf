// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river/rivertype"

	locks "github.com/getsetlock/getsetlock/adapters/river"
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
