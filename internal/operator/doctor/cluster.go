// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// ExamineCluster examines the primaries of a Redis Cluster, one after another.
// It offers no fixes: a key may move between the look and the change. If a
// primary fails, it returns what it found at the others, with the error.
func ExamineCluster(ctx context.Context, primaries []string, pool func(addr string) *redis.Pool,
	cfg Config) (*Diagnosis, error) {
	all := &Diagnosis{Facts: []string{fmt.Sprintf("a cluster; its %d primaries were examined, and no key can be fixed",
		len(primaries))}}
	cfg.node = true
	progress := cfg.Progress
	var errs []error
	for _, addr := range primaries {
		before := all.Keys
		if progress != nil {
			cfg.Progress = func(looked int64) { progress(before + looked) }
		}
		d, err := Examine(ctx, pool(addr), cfg)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		}
		all.Keys, all.More = all.Keys+d.Keys, all.More+d.More
		for _, fact := range d.Facts {
			all.Facts = append(all.Facts, addr+": "+fact)
		}
		for _, c := range d.Complaints {
			all.Complaints = append(all.Complaints, c.at(addr))
		}
	}
	if more := len(all.Complaints) - mostComplaints; more > 0 {
		all.Complaints, all.More = all.Complaints[:mostComplaints], all.More+int64(more)
	}
	slices.SortStableFunc(all.Complaints, func(a, b Complaint) int { return a.Compare(b.Finding) })
	return all, errors.Join(errs...)
}

// at returns the complaint as one about the node at addr, without its fix.
func (c Complaint) at(addr string) Complaint {
	switch {
	case c.Key == "":
		c.What = addr + ": " + c.What
	case c.Kind == "past" || c.Kind == "far":
		c.Advice = "an old client writes to a cluster, where getsetlock can neither share nor fix its lock: use a single primary for it"
	}
	c.Fix, c.Wait = nil, 0
	return c
}
