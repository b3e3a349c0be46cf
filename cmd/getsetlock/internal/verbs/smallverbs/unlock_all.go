// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// all shows the locks that match a pattern, asks once, and deletes each of them
// that still holds what was shown. arg is the pattern as the user wrote it.
func (u *unlocking) all(ctx context.Context, arg string) error {
	found, err := u.on.matching(ctx, arg)
	if err != nil {
		return out.CouldNot(u.on.told(err), "listing the keys of %s", u.on.where())
	}
	locks, others, tombstones := deletable(found)
	if tombstones > 0 {
		u.e.Say(false, "%s left alone; getsetlock migrate sweep ends tombstones",
			out.Count(tombstones, "tombstone of a migration is", "tombstones of a migration are"))
	}
	if others > 0 {
		u.e.Say(false, "%s left alone", out.Count(others, "matching key is no held lock and is",
			"matching keys are no held locks and are"))
	}
	if len(locks) == 0 {
		fmt.Fprintf(u.e.Stdout, "no lock matches %s\n", arg)
		return nil
	}
	width, _, _ := u.e.Screen(u.e.Stderr)
	lines := lockGrid(locks).Fit(max(0, width-1), u.e.Colours(u.e.Stderr))
	fmt.Fprintf(u.e.Stderr, "%s\nIf a holder is alive, it goes on working without a lock. ",
		strings.Join(lines, "\n"))
	if err := u.confirm(ctx, fmt.Sprintf("Delete %s?", out.Count(len(locks), "lock"))); err != nil {
		return err
	}
	kept := 0
	for _, l := range locks {
		deleted, err := u.on.force(ctx, l.lock, l.held)
		if err != nil {
			return u.couldNot(err, l.lock)
		}
		if !deleted.Any() {
			kept++
			u.e.Say(false, "%q is kept, because it changed: it %s", out.Escaped(l.lock), u.now(ctx, l.lock))
			continue
		}
		if l.mark {
			fmt.Fprintf(u.e.Stdout, "deleted %s, the token of a getsetlock client\n", l.Key)
			continue
		}
		u.sayDeleted(l.lock, deleted)
	}
	if kept > 0 {
		return &out.ExitError{Code: out.CodeBad, Err: errors.New(out.Count(kept, "lock was", "locks were") +
			" not deleted: what they hold is not what was shown")}
	}
	return nil
}

// deletable separates the locks that can be deleted from what is none. A
// tombstone keeps old clients out on purpose, and a key that is left to old
// clients for a moment has no holder.
func deletable(found []lockLine) (locks []lockLine, others, tombstones int) {
	for _, l := range found {
		switch {
		case l.Protocol == out.ProtocolTombstone:
			tombstones++
		case l.State != StateHeld && l.State != StateExpired, l.long > 0, l.held == "":
			others++
		default:
			locks = append(locks, l)
		}
	}
	return locks, others, tombstones
}
