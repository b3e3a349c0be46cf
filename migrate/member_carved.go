package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// withAlso makes a member for each namespace that the program also names. They
// share the connection and the id. Each has a field of its own in the roster of
// its namespace, which may have no record yet.
func (m *Member) withAlso() {
	m.family = map[string]*Member{m.cfg.Namespace: m}
	for _, namespace := range m.cfg.Also {
		cfg := m.cfg
		cfg.Namespace = namespace
		longer := newMember(cfg, m.mux, m.id)
		longer.child, longer.family = true, m.family
		m.family[namespace] = longer
	}
}

// all are the members that a call is for: a joined member and those of the
// namespaces in Also, the shortest namespace first.
func (m *Member) all() []*Member {
	if m.child || len(m.family) < 2 {
		return []*Member{m}
	}
	var all []*Member
	for _, namespace := range slices.Sorted(maps.Keys(m.family)) {
		all = append(all, m.family[namespace])
	}
	return all
}

// Covers reports that the program may take a lock: its key begins with the
// namespace, and lies in no carved namespace that the program does not name.
// All keys begin with the empty namespace. The key is the program's own, before
// any encoding by a dialect.
func (m *Member) Covers(key string) bool {
	_, err := m.ownerOf(key)
	return err == nil
}

// hold is a counted attempt.
type hold struct {
	owner *Member // member whose record says the phase
	phase Phase
	epoch int64
	life  int64 // silences of owner before it
	end   func()
}

// took counts an attempt. The caller holds m.mu since it was decided that the
// key is this member's, so that what the member says of a later epoch counts
// the attempt.
func (m *Member) took() hold {
	p, epoch := m.state.Phase, m.state.Epoch
	m.leases[p]++
	m.taken[epoch]++
	return hold{m, p, epoch, m.lives, sync.OnceFunc(func() { m.end(p, epoch) })}
}

// begin is Begin for a key, by the record of the longest namespace that owns
// it.
func (m *Member) begin(ctx context.Context, key string, ttl time.Duration) (hold, error) {
	if h, own, err := m.beginOwn(ctx, key, ttl); own {
		return h, err
	}
	for {
		path, err := m.ownerOf(key)
		if err != nil {
			return hold{}, err
		}
		owner := path[len(path)-1]
		owner.asks(ttl)
		late := map[*Member]error{}
		for _, one := range path {
			late[one] = one.catchUp(ctx)
		}
		h, moved, err := m.count(key, ttl, owner, late)
		if !moved {
			return h, err
		}
	}
}

// beginOwn is begin where nothing was carved out, which is the usual case. It
// returns false where something was, or the key is outside.
func (m *Member) beginOwn(ctx context.Context, key string, ttl time.Duration) (h hold, own bool, err error) {
	if !scope.Within(m.cfg.Namespace, key) {
		return hold{}, false, nil
	}
	m.mu.Lock()
	own = len(m.state.Except) == 0
	if own {
		m.state.TTL = max(m.state.TTL, ttl)
	}
	m.mu.Unlock()
	if !own {
		return hold{}, false, nil
	}
	late := m.catchUp(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.state.Except) > 0 {
		return hold{}, false, nil
	}
	if err := m.mayTake(ttl, late); err != nil {
		return hold{}, true, err
	}
	return m.took(), true, nil
}

// count counts an attempt on a key with its owner. It returns moved where the
// owner is no longer the one that caught up. It is called with the locks of the
// members of all shorter namespaces held, so that none of them acknowledges
// meanwhile that the key has another owner.
func (m *Member) count(key string, ttl time.Duration, owner *Member, late map[*Member]error) (h hold,
	moved bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	longer, err := m.next(key)
	if err != nil {
		return hold{}, false, err
	}
	if longer == nil && m != owner {
		return hold{}, true, nil
	}
	under := ttl
	if longer != nil {
		under = 0 // no lease is taken under this record
	}
	if err := m.mayTake(under, late[m]); err != nil {
		return hold{}, false, err
	}
	if longer == nil {
		return m.took(), false, nil
	}
	if _, asked := late[longer]; !asked {
		return hold{}, true, nil
	}
	return longer.count(key, ttl, owner, late)
}

// next is the member of the longest namespace with this key that was carved out
// of m's, or nil where the key is m's own. The caller holds m.mu.
func (m *Member) next(key string) (*Member, error) {
	longer := scope.Carved(key, m.state.Except)
	if longer == "" {
		return nil, nil
	}
	if of := m.family[longer]; of != nil {
		return of, nil
	}
	return nil, fmt.Errorf("%w: %q lies in %q, which was carved out of %q: name %q in MemberConfig.Also (run --also), or join it alone",
		ErrOutside, key, longer, m.cfg.Namespace, longer)
}

// ownerOf are the members by whose records a key is found, the owner last.
func (m *Member) ownerOf(key string) ([]*Member, error) {
	if !scope.Within(m.cfg.Namespace, key) {
		return nil,
			fmt.Errorf(
				"%w: %q; give the program a key of its namespace, or let it join the one that owns this",
				ErrOutside, key)
	}
	path := []*Member{m}
	for {
		m.mu.Lock()
		longer, err := m.next(key)
		m.mu.Unlock()
		if err != nil || longer == nil {
			return path, err
		}
		path, m = append(path, longer), longer
	}
}

// epoch is the epoch of the record that the member acts by.
func (m *Member) epoch() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Epoch
}

// snapshotCarved adds what a member says of the longer namespaces that it
// names. The caller holds m.mu. So an attempt counted under a longer namespace
// shows here before m acknowledges that its keys are m's own again.
func (m *Member) snapshotCarved(s *MemberState) {
	for epoch := range m.taken {
		if s.Oldest == 0 || epoch < s.Oldest {
			s.Oldest = epoch
		}
	}
	for namespace, of := range m.family {
		if of == m || !scope.Within(m.cfg.Namespace, namespace) {
			continue
		}
		if s.Also == nil {
			s.Also = map[string]int{}
		}
		s.Also[namespace] = of.running()
	}
}

// running is the number of leases that run.
func (m *Member) running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for _, n := range m.leases {
		sum += n
	}
	return sum
}

// lists follows the namespaces that a record lists. A newly listed one has to
// read its record again, since what it read before may belong to a carving that
// failed. The caller holds m.mu.
func (m *Member) lists(except []string) {
	for _, namespace := range except {
		of := m.family[namespace]
		if of == nil || slices.Contains(m.state.Except, namespace) {
			continue
		}
		of.mu.Lock()
		of.listings++
		of.mu.Unlock()
	}
	m.state.Except = except
}

// notListed says why the record of a namespace in Also has no effect: no member
// of this program acts by a record that lists the namespace. A phase that it
// had is over then, and its leases go on.
func (m *Member) notListed() error {
	if !m.child {
		return nil
	}
	for namespace, of := range m.family {
		if of == m || !scope.Within(namespace, m.cfg.Namespace) {
			continue
		}
		of.mu.Lock()
		lists := slices.Contains(of.state.Except, m.cfg.Namespace)
		of.mu.Unlock()
		if lists {
			return nil
		}
	}
	return fmt.Errorf("namespace %q is not carved out of another one", m.cfg.Namespace)
}

// listing says why a record has no effect: the shorter namespace that it names
// does not list it. Passing is true where that may only be a loss; then a
// member that has a phase goes on. A member in Also need not ask, since a
// shorter namespace's record led to it.
func (m *Member) listing(ctx context.Context, text string) (why error, passing bool, err error) {
	found, unread := ParseRecord(text)
	if m.child || unread != nil {
		return nil, false, nil
	}
	namespace := m.cfg.Namespace
	for found.From != (Origin{}) {
		from := found.From
		shorter, err := record.TextOf(m.mux.Do(ctx, "GET", record.Key(from.Namespace)))
		if err != nil {
			return nil, false, m.refused("read the record", record.Key(from.Namespace), err)
		}
		found, err = ParseRecord(shorter)
		switch {
		case shorter == "":
			return fmt.Errorf("namespace %q was carved out of %q, and there is no record %s", namespace,
				from.Namespace, record.Key(from.Namespace)), true, nil
		case err != nil:
			return fmt.Errorf("namespace %q was carved out of %q, and the record %s cannot be read: %w",
				namespace, from.Namespace, record.Key(from.Namespace), err), true, nil
		case !found.Lists(namespace):
			return fmt.Errorf("namespace %q was carved out of %q, and the record %s does not list it any more, or not yet: join %q instead and name %q in MemberConfig.Also, or carve it by getsetlock migrate init",
					namespace, from.Namespace, record.Key(from.Namespace), from.Namespace, namespace),
				found.Epoch < from.Epoch, nil
		}
		namespace = from.Namespace
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root = namespace
	return nil, false, nil
}

// countsFor is the namespace whose counter of fencing numbers is used for a
// namespace. A program that joined a carved namespace uses the counter of the
// shortest one, so that no number is less than one drawn before.
func (m *Member) countsFor(namespace string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if namespace == m.cfg.Namespace && m.state.Phase != NoPhase {
		return m.root
	}
	return namespace
}
