// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
)

// gone is the roster's field that counts members gone for long, as it was read.
type gone struct {
	record.Gone
	bytes string // empty without such a field
	err   error  // why bytes cannot be read
}

// unmoved is a heartbeat that lies in the future, and since when it has been
// the same.
type unmoved struct {
	bytes string
	since clocks.Moment
}

// callRoll reads the record again, then the roster together with the time. So
// no heartbeat lies ahead of the time, and nothing slow is read in between. It
// returns false where a step was taken, or another server answers, since the
// facts were gathered.
func (d *desk) callRoll(ctx context.Context, f *facts) (same bool, err error) {
	again, err := readStored(d.mux.Do(ctx, "GET", record.Key(d.opts.Namespace)))
	if err != nil {
		return false, err
	}
	if !again.sameStep(f.record) {
		return false, nil
	}
	f.record = again
	f.reading.Boot, f.reading.Up = d.clock.Boot()
	replies := d.mux.Batch(ctx, []wire.Command{
		wire.Cmd("HGETALL", record.RosterKey(d.opts.Namespace)), wire.Cmd("TIME"),
		wire.Cmd("INFO", "server")})
	// Another run id after the roster means that another server was promoted,
	// and the roster may be either one's.
	server, err := infoOf(replies[2])
	if err != nil {
		return false, err
	}
	if run := server.runID; f.server.runID != "" && run != f.server.runID {
		return false, nil
	}
	fields, err := redis.StringMap(replies[0].Value, replies[0].Err)
	if err != nil {
		return false, err
	}
	if f.now, err = wire.Time(replies[1].Value, replies[1].Err); err != nil {
		return false, err
	}
	f.reading.Server, f.reading.Run = f.now.Sub(time.Unix(0, 0)), f.server.runID
	f.enroll(fields)
	f.sighting = f.sighting.since(f.record.Evidence, f.now)
	d.watchAhead(f)
	return true, nil
}

// sameStep reports that no step was taken between two readings of a record. A
// greater TTL or period, which members write, is no step, nor is what a watcher
// saw of clocks.
func (s stored) sameStep(before stored) bool {
	if s.err != nil || before.err != nil || !s.exists() || !before.exists() {
		return s.bytes == before.bytes
	}
	a, b := s.Record, before.Record
	a.TTL, a.Every, a.SawBehind, a.SawAhead = b.TTL, b.Every, b.SawBehind, b.SawAhead
	return a.String() == b.String()
}

// enroll parses the roster's fields. Members that have left for good are kept
// apart, and count for nothing.
func (f *facts) enroll(fields map[string]string) {
	f.nonce, f.gone, f.survey.members, f.survey.left = fields[record.NonceField], gone{}, nil, nil
	if text := fields[record.GoneField]; text != "" {
		f.gone.bytes = text
		f.gone.Gone, f.gone.err = record.ParseGone(text)
	}
	for _, s := range seats(fields) {
		if s.err == nil && !s.Leaving.IsZero() && s.outlived(f.now) {
			f.survey.left = append(f.survey.left, s)
			continue
		}
		f.survey.members = append(f.survey.members, s)
	}
	f.survey.strangers(f.survey.members)
}

// seats parses the members of a roster's fields, sorted by id.
func seats(fields map[string]string) []seat {
	var all []seat
	for id, text := range fields {
		if id == record.NonceField || id == record.GoneField {
			continue
		}
		m, err := migrate.ParseMember(text)
		if err == nil && m.ID != id {
			err = record.ErrForm
		}
		m.ID = id
		all = append(all, seat{MemberState: m, bytes: text, err: err})
	}
	slices.SortFunc(all, func(a, b seat) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// callOthers reads the rosters of namespaces that share keys with this one and
// have no record. Members keep the phase of a record that was lost, and would
// take locks alongside those of this namespace.
func (d *desk) callOthers(ctx context.Context, f *facts) error {
	f.acting = map[string]string{}
	for _, other := range slices.Sorted(maps.Keys(f.survey.rosters)) {
		if f.survey.records[other] || !f.shares(other) {
			continue
		}
		key := record.RosterKey(other)
		fields, err := redis.StringMap(d.mux.Do(ctx, "HGETALL", key))
		if err != nil {
			return fmt.Errorf("migrate: reading the members in %s: %w", key, err)
		}
		var who []string
		for _, s := range seats(fields) {
			switch {
			case s.err != nil:
				who = append(who, s.ID+", whose field cannot be read")
			case s.acts(f.now):
				who = append(who, fmt.Sprintf("%s by %v", s.who(), s.Phase))
			}
		}
		if len(who) > 0 {
			f.acting[other] = someOf(who)
		}
	}
	return nil
}

// watchAhead notes for how long heartbeats in the future have not moved, by
// this machine's elapsed time.
func (d *desk) watchAhead(f *facts) {
	seen, now := map[string]unmoved{}, d.clock.Moment()
	for i := range f.survey.members {
		m := &f.survey.members[i]
		if m.err != nil || !m.ahead(f.now) {
			continue
		}
		was, ok := d.ahead[m.ID]
		if !ok || was.bytes != m.bytes {
			was = unmoved{m.bytes, now}
		}
		m.still = now.Elapsed - was.since.Elapsed
		seen[m.ID] = was
	}
	d.ahead = seen
}

// awaitAhead looks again while a heartbeat lies in the future, for at most
// Options.Wait. A heartbeat that does not move belongs to a member that has
// vanished.
func (d *desk) awaitAhead(ctx context.Context, f *facts) (*facts, error) {
	unclear := func(m seat) bool {
		enough := m.vanished(f.now) && (!d.forgets(m.ID) || m.outlived(f.now))
		return m.err == nil && m.ahead(f.now) && !enough
	}
	began := d.clock.Moment()
	for slices.ContainsFunc(f.members(), unclear) && d.clock.Since(began) < d.opts.Wait {
		d.progress("a heartbeat lies ahead of the server's clock; looking whether it moves", began)
		select {
		case <-d.clock.After(lookEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("migrate: waiting for a heartbeat: %w", context.Cause(ctx))
		}
		var err error
		if f, err = d.gather(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (d *desk) forgets(id string) bool {
	return slices.Contains(d.opts.Forget, id) || slices.Contains(d.opts.Forget, allDead)
}

// whyLost says why members may be missing from the roster. Either it is not the
// roster that the record names, or the server has restarted since, perhaps from
// an older copy. It is empty where nothing says so. Where run ids are unknown
// only the nonce counts.
func (f *facts) whyLost() string {
	switch run := f.record.Run; {
	case f.nonce == "":
		return fmt.Sprintf("the roster %s is not there", record.RosterKey(f.namespace))
	case f.nonce != f.record.Roster:
		return fmt.Sprintf("the roster %s is not the one that the record names",
			record.RosterKey(f.namespace))
	case run != "" && f.server.runID != "" && run != f.server.runID:
		return "the server restarted or another took over (its run id is not that of the last step)"
	}
	return ""
}

// lostFor is how long a lease of a missing member can still run.
func (f *facts) lostFor() time.Duration {
	every, ttl := f.record.Every, f.record.TTL
	renews := record.RenewalsFor(every)
	for _, m := range f.members() {
		if m.err == nil {
			ttl, renews = max(ttl, m.TTL), max(renews, m.Renews)
		}
	}
	return renews + ttl + record.Late
}

// trustOfLoss is taken off the age of a loss that another machine noted.
const trustOfLoss = time.Second

// lostSince is how long ago the loss was noted. It returns false where it has
// to be noted, or noted anew.
func (f *facts) lostSince() (age time.Duration, noted bool) {
	if f.record.Lost == (look.Reading{}) || f.whyLost() != "" {
		return 0, false
	}
	before, now := f.record.Lost, f.reading
	if before.Run == "" && now.Run == "" {
		before.Run, now.Run = f.nonce, f.nonce // the nonce counts alone
	}
	return before.Age(now, trustOfLoss)
}

// lostCauses is what may have happened where the record notes that members may
// be missing. The record does not say which of them it was.
const lostCauses = "the server restarted, another took over, or the roster was lost"

// lost blocks while leases of members may run that the roster has lost.
func (b *builder) lost() {
	why := b.whyLost()
	noted := b.record.Lost != (look.Reading{})
	if why == "" && !noted {
		b.runID()
		return
	}
	need := b.lostFor()
	age, counts := b.lostSince()
	switch {
	case why != "":
		b.blockFor(need, "lost", "%s, and members whose leases still run may be missing from the roster: any step with --go notes that; the gates may open %v later, when every live member has sent a heartbeat and no lease of a missing member is left", why, need)
	case !counts:
		b.blockFor(need, "lost", "members may be missing from the roster since %v (%s), and the clocks that would say for how long do not agree: any step with --go begins anew with %v", instant(b.record.Lost), lostCauses, need)
	case age <= need:
		b.blockFor(need-age, "lost", "members may be missing from the roster since %v (%s): their leases are over in %v (longest lease %v, last renewals %v after the last heartbeat)",
			instant(b.record.Lost), lostCauses, (need - age).Round(time.Millisecond), b.record.TTL,
			record.RenewalsFor(b.record.Every))
	default:
		b.note("lost",
			"members may have been missing from the roster at %v (%s); every lease of that time is over",
			instant(b.record.Lost), lostCauses)
	}
	b.runID()
}

// runID notes that only the nonce shows a lost roster, where the run id is
// unknown.
func (b *builder) runID() {
	if b.facts.server.noRun != "" {
		b.note("run-id", "%s, so only the roster's nonce shows that members were lost", b.facts.server.noRun)
	}
}

func instant(r look.Reading) string {
	return dated(time.Unix(0, 0).Add(r.Server))
}

// noteLost writes into the record that members may be missing, if that is so
// and not noted yet. It returns facts gathered anew.
func (d *desk) noteLost(ctx context.Context, f *facts) (*facts, error) {
	for f.record.readable() && !f.outdated() {
		if _, noted := f.lostSince(); noted || f.whyLost() == "" && f.record.Lost == (look.Reading{}) {
			break
		}
		if err := d.beginRoster(ctx, f); err != nil {
			return nil, err
		}
		next := f.record.Record
		next.Lost, next.Roster, next.Run = f.reading, f.nonce, f.run()
		_, err := change(ctx, d.mux, d.opts.Namespace, f.record, next)
		if err != nil && !errors.Is(err, errRaced) {
			return nil, d.refused(err)
		}
		if err == nil {
			d.log(ctx, nil, Entry{At: f.now, Epoch: next.Epoch, Lost: true})
		}
		if f, err = d.gather(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// beginRoster gives the roster a nonce where it has none.
func (d *desk) beginRoster(ctx context.Context, f *facts) error {
	if f.nonce != "" {
		return nil
	}
	replies := d.mux.Batch(ctx, []wire.Command{
		wire.Cmd("HSETNX", record.RosterKey(f.namespace), record.NonceField, record.NewID()),
		wire.Cmd("HGET", record.RosterKey(f.namespace), record.NonceField),
	})
	nonce, err := redis.String(replies[1].Value, errors.Join(replies[0].Err, replies[1].Err))
	if err != nil {
		return d.refused(fmt.Errorf("migrate: beginning the roster %s: %w", record.RosterKey(f.namespace),
			err))
	}
	f.nonce = nonce
	return nil
}

// run is the run id for the next record.
func (f *facts) run() string {
	if f.server.runID == "" {
		return f.record.Run
	}
	return f.server.runID
}

// greatest raises the record's greatest period and TTL to those of the members.
func (f *facts) greatest(r *migrate.Record) {
	r.Every, r.TTL = max(r.Every, f.record.Every), max(r.TTL, f.record.TTL)
	for _, m := range f.members() {
		if m.err == nil {
			r.Every, r.TTL = max(r.Every, m.Every), max(r.TTL, m.TTL)
		}
	}
}
