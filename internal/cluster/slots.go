// SPDX-License-Identifier: Apache-2.0

// Package cluster knows which primary of a Redis Cluster serves each slot.
//
// What it knows may be old at any time. That costs a redirection and never a
// lock: a node executes no command for a slot that it does not serve.
package cluster

import (
	"cmp"
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
)

// span are the slots from first to last, and the primary that serves them.
type span struct {
	first, last int
	addr        string
}

var errOddSlots = errors.New("CLUSTER SLOTS: the reply does not have the shape that a cluster returns")

// spans reads a reply of CLUSTER SLOTS from the node at asked. The command is
// as old as clusters are, and each server names the port, of TLS or not, that
// suits the connection which asks. So CLUSTER SHARDS is not needed.
func spans(asked string, reply any, err error) ([]span, error) {
	rows, err := redis.Values(reply, err)
	if err != nil {
		return nil, err
	}
	var all []span
	for _, r := range rows {
		row, _ := r.([]any)
		if len(row) < 3 {
			return nil, errOddSlots
		}
		first, err1 := redis.Int(row[0], nil)
		last, err2 := redis.Int(row[1], nil)
		primary, err3 := redis.Values(row[2], nil) // replicas follow it
		if err1 != nil || err2 != nil || err3 != nil || len(primary) < 2 || first < 0 || first > last ||
			last >= names.Slots {
			return nil, errOddSlots
		}
		host, _ := redis.String(primary[0], nil) // NULL where the node does not know its own address
		port, err := redis.Int(primary[1], nil)
		if err != nil {
			return nil, errOddSlots
		}
		all = append(all, span{first, last, Join(asked, net.JoinHostPort(host, strconv.Itoa(port)))})
	}
	return all, nil
}

// Join returns the address of a node that the one at asked calls addr. A node
// without a host is the one that was asked, perhaps at another port. Redis
// does not put the host of IPv6 in brackets where it redirects.
func Join(asked, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		if i := strings.LastIndexByte(addr, ':'); i >= 0 {
			host, port = addr[:i], addr[i+1:]
		}
	}
	if host == "?" { // the node announces a name and has none
		host = ""
	}
	own, _, _ := net.SplitHostPort(asked)
	return net.JoinHostPort(cmp.Or(host, own), port)
}
