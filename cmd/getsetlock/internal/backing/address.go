// SPDX-License-Identifier: Apache-2.0

package backing

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Address says where a store is. The zero value is no address.
type Address struct {
	Scheme   string // without the s that asks for TLS
	TLS      bool
	User     string
	Servers  []string // each as host:port
	Path     string   // begins with a slash; empty: none
	password string
}

// full are the schemes of the full command, each with the name of its store.
var full = map[string]string{"etcd": "etcd", "zookeeper": "ZooKeeper"}

// Install is the command line that installs the command with every store.
const Install = "go install github.com/getsetlock/getsetlock/cmd/getsetlock/full/getsetlock@latest"

// Parse reads an address such as etcd://host:port,host:port. Its errors repeat
// only the scheme: in a malformed address any other part may be the password.
func Parse(raw string, stores map[string]Store) (Address, Store, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !found {
		return Address{}, Store{}, fmt.Errorf("the address has no scheme: write %s",
			schemes(stores))
	}
	a := Address{Scheme: scheme}
	store, known := stores[scheme]
	if !known {
		if a.Scheme, a.TLS = strings.CutSuffix(scheme, "s"); a.TLS {
			store, known = stores[a.Scheme]
		}
	}
	if !known {
		return Address{}, Store{}, unknown(scheme, stores)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		if err := a.login(hosts[:at]); err != nil {
			return Address{}, Store{}, err
		}
		hosts = hosts[at+1:]
	} else if strings.Contains(path, "@") {
		return Address{}, Store{}, errors.New(
			"the address has an @ in its path: write a slash in a user or password as %2F")
	}
	for server := range strings.SplitSeq(hosts, ",") {
		server, err := withPort(server, store.Port)
		if err != nil {
			return Address{}, Store{}, fmt.Errorf("%w: write %s://host:port,host:port", err, scheme)
		}
		a.Servers = append(a.Servers, server)
	}
	if path = strings.TrimSuffix(path, "/"); path == "" {
		return a, store, nil
	}
	if store.Path == "" {
		return Address{}, Store{}, fmt.Errorf(
			"an address of %s has no path: leave out what follows the servers",
			store.Name)
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return Address{}, Store{}, fmt.Errorf(
			"the path of the address, its %s, cannot be read: write %%25 for %%",
			store.Path)
	}
	a.Path = "/" + plain
	return a, store, nil
}

// login reads user:password.
func (a *Address) login(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err, wrong error
	a.User, err = url.PathUnescape(user)
	a.password, wrong = url.PathUnescape(password)
	if err != nil || wrong != nil {
		return errors.New("the user or password of the address cannot be read: write %25 for %")
	}
	if a.User == "" {
		return errors.New("the address has a password and no user: write user:password@, or leave both out")
	}
	return nil
}

var errServer = errors.New("the address has a server that is no host:port")

var errPort = errors.New("the address has a port that is no number from 1 to 65535")

// withPort adds the usual port where a server has none.
func withPort(server, port string) (string, error) {
	host, given, err := net.SplitHostPort(server)
	if err != nil {
		host, given, err = net.SplitHostPort(server + ":" + port)
	}
	if err != nil || host == "" || given == "" || strings.ContainsAny(server, " ?#") {
		return "", errServer
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
		return "", errPort
	}
	return net.JoinHostPort(host, given), nil
}

// unknown explains a scheme that this program has no store for.
func unknown(scheme string, stores map[string]Store) error {
	name, there := full[scheme]
	if !there {
		name, there = full[strings.TrimSuffix(scheme, "s")]
	}
	switch {
	case there:
		return fmt.Errorf("this program takes locks on Redis only; locks in %s need the full command, which has the same name: %s, or make full in a checkout",
			name, Install)
	case strings.Contains(scheme, "redis"), scheme == "unix":
		return fmt.Errorf("%s:// is an address for --redis", scheme)
	case len(scheme) > 20 || strings.ContainsAny(scheme, ":@/"): // a part of it may be a password
		return fmt.Errorf("the address begins with no known scheme: write %s", schemes(stores))
	}
	return fmt.Errorf("the scheme %q is unknown: write %s", scheme, schemes(stores))
}

// schemes are the addresses that a target may have.
func schemes(stores map[string]Store) string {
	names := slices.Sorted(maps.Keys(stores))
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(full))
	}
	for i, name := range names {
		names[i] = name + "://host:port"
	}
	return strings.Join(names, " or ")
}

// HasPassword reports whether the address has a password.
func (a Address) HasPassword() bool { return a.password != "" }

// Secure returns the scheme that asks for TLS.
func (a Address) Secure() string { return a.Scheme + "s" }

// String is the address without its password, for people.
func (a Address) String() string {
	var b strings.Builder
	b.WriteString(a.Scheme)
	if a.TLS {
		b.WriteString("s")
	}
	b.WriteString("://")
	if a.User != "" {
		b.WriteString(url.PathEscape(a.User) + ":***@")
	}
	b.WriteString(strings.Join(a.Servers, ","))
	for i, part := range strings.Split(a.Path, "/") {
		if i > 0 {
			b.WriteString("/" + url.PathEscape(part))
		}
	}
	return b.String()
}

// Format keeps verbs such as %+v from printing the password.
func (a Address) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(a.String())) }
