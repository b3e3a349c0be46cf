// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// seal ends each part of a snapshot, behind the checksum of all before it.
var seal = []byte("\x00\x00\x00\x01/")

const sum = 8 // bytes of a checksum

// SetCounter restarts the server, so that the next sequential child of a node
// gets the number n. It writes that to the snapshot with which a server starts.
func (s *Server) SetCounter(path string, n int32) {
	s.t.Helper()
	s.restart() // takes a snapshot
	s.end()
	found, err := filepath.Glob(filepath.Join(s.dir, "version-2", "snapshot.*"))
	if err != nil || len(found) == 0 {
		s.t.Fatal("the server has taken no snapshot: ", err)
	}
	last := slices.MaxFunc(found, func(a, b string) int {
		one, _ := os.Stat(a)
		other, _ := os.Stat(b)
		return one.ModTime().Compare(other.ModTime())
	})
	text, err := os.ReadFile(last)
	if err != nil {
		s.t.Fatal(err)
	}
	var seals []int
	for at := sum; at < len(text); at++ {
		if bytes.HasPrefix(text[at:], seal) &&
			binary.BigEndian.Uint64(text[at-sum:]) == uint64(adler32.Checksum(text[:at-sum])) {
			seals = append(seals, at-sum)
		}
	}
	// A node is its path, its data and the number of its rights, then its stat:
	// four times of 8 bytes, the version of its data, that of its children.
	name := binary.BigEndian.AppendUint32(nil, uint32(len(path)))
	at := bytes.Index(text, append(name, path...))
	if at < 0 || len(seals) == 0 {
		s.t.Fatalf("%s has no node %s, or no seal: %d", last, path, len(seals))
	}
	at += 4 + len(path)
	if size := int32(binary.BigEndian.Uint32(text[at:])); size > 0 { // -1: no data
		at += int(size)
	}
	at += 4 + 8 + 4*8 + 4
	binary.BigEndian.PutUint32(text[at:], uint32(n))
	for _, at := range seals {
		binary.BigEndian.PutUint64(text[at:], uint64(adler32.Checksum(text[:at])))
	}
	if err := os.WriteFile(last, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Run()
	s.await()
}

func (s *Server) restart() {
	s.end()
	s.Run()
	s.await()
}

// end kills the process, and waits until it serves no more.
func (s *Server) end() {
	s.Kill()
	for end := time.Now().Add(Patience); s.Mode() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("the server was killed and still serves")
		}
	}
}
