// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/getsetlock/getsetlock/lead"
	"github.com/getsetlock/getsetlock/lock"
)

// ErrNotLeader is what an Elector answers on all machines but the leader.
var ErrNotLeader = errors.New("gocron: another process leads")

// Elector is a gocron.Elector: all jobs of a scheduler run on the machine that
// leads. Run must be running.
//
//	elector := locks.NewElector(client, "reports")
//	go func() { failed <- elector.Run(ctx) }()
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
type Elector struct{ campaign lead.Elector }

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that campaigns for key.
func NewElector(client *lock.Client, key string) *Elector {
	return &Elector{lead.Elector{Client: client, Key: key}}
}

// Run campaigns until ctx ends. It then resigns and returns the cause. The
// other errors are those of [lead.Elector.Run].
func (e *Elector) Run(ctx context.Context) error {
	return e.campaign.Run(ctx, func(leading context.Context) error {
		<-leading.Done()
		return context.Cause(leading)
	})
}

// IsLeader returns nil while this machine leads, by a look at the clock, and
// [ErrNotLeader] otherwise.
func (e *Elector) IsLeader(context.Context) error {
	if !e.campaign.IsLeader() {
		return ErrNotLeader
	}
	return nil
}

// Task is a job of gocron whose context ends with the leadership, too.
func (e *Elector) Task(fn func(context.Context) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		leading, ok := e.campaign.Context(ctx)
		if !ok {
			return ErrNotLeader
		}
		return fn(leading)
	})
}
