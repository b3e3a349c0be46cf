package bench

import (
	"context"
	"strings"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
	"github.com/getsetlock/getsetlock/redisconn"
)

// QuorumBase is the adapter that a lock on several servers is compared with:
// the same lock on the first of them.
const QuorumBase = "modern, one server"

// Quorum returns the adapters of a lock on several servers. Their addresses are
// Server.Target, separated by blanks.
func Quorum() []Adapter {
	return []Adapter{
		{Name: QuorumBase, Open: openFirst},
		{Name: "quorum", Open: openQuorum(false)},
		{Name: "quorum, fenced", Open: openQuorum(true)},
	}
}

// openFirst opens a lock on the first server alone.
func openFirst(ctx context.Context, s Server) (Locker, error) {
	first, _, _ := strings.Cut(s.Target, " ")
	at, err := s.at(first)
	if err != nil {
		return nil, err
	}
	return openModern(modern.Config{}, nil)(ctx, at)
}

// at returns s for one of several addresses, with what of Access it needs.
func (s Server) at(text string) (Server, error) {
	var err error
	if s.address, err = redisconn.Parse(text); err != nil {
		return s, err
	}
	s.Access = s.Access.forAddress(s.address)
	return s, nil
}

func (a Access) forAddress(at redisconn.Address) Access {
	if strings.Contains(at.String(), ":***@") { // it has a password of its own
		a.Password, a.PasswordFile = "", ""
	}
	if !at.TLS() {
		a.CACert, a.Cert, a.Key = "", "", ""
	}
	return a
}

func openQuorum(fences bool) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		var members []quorum.Member
		for _, text := range strings.Fields(s.Target) {
			at, err := s.at(text)
			if err != nil {
				return nil, err
			}
			pool, err := at.Pool()
			if err != nil {
				return nil, err
			}
			m, err := modern.New(pool, modern.Config{Name: at.address.String(), Fence: fences,
				Namespace: s.namespace()})
			if err != nil {
				return nil, err
			}
			members = append(members, m)
		}
		b, err := quorum.New(members, quorum.Config{GreatestTTL: s.TTL, Fences: fences})
		if err != nil {
			return nil, err
		}
		return newOurs(b, lock.Config{TTL: s.TTL})
	}
}

// CleanQuorum deletes what measurements left on the servers. What a server that
// is away has left expires by itself.
func CleanQuorum(addresses []string, access Access, prefix string) {
	for _, text := range addresses {
		at, err := Server{Access: access}.at(text)
		if err != nil {
			continue
		}
		r := &Runner{Redis: text, Access: at.Access, Prefix: prefix}
		if leave, err := r.connect(); err == nil {
			leave()
		}
	}
}
