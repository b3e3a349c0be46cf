// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strconv"
	"strings"
	"sync"
)

// In a cluster, a script may use only keys of one slot. The slot of a name is
// chosen by its hash tag, the text between the first "{" and the first "}"
// after it. A name without such a text is hashed whole. So the other keys of a
// script have names with a tag of the slot in which the lock's key lies.
//
// The names are part of the protocol: all programs must compute the same.

// InSlot returns the name of a key that belongs to the lock on key alone, in
// that key's slot. A key without braces becomes the tag: prefix{KEY}. A key
// with braces stands whole after a tag of its slot, prefix{TAG}:KEY. So no two
// keys have the same name.
func InSlot(prefix, key string) string {
	if !strings.ContainsAny(key, "{}") {
		return prefix + "{" + key + "}"
	}
	tag, own := hashTag(key)
	if !own {
		tag = slotTag(key)
	}
	return prefix + "{" + tag + "}:" + key
}

// OfSlot returns the name of a key that all locks in the slot of key share. A
// prefix has at most 16384 such names.
func OfSlot(prefix, key string) string {
	if tag, own := hashTag(key); own {
		key = tag
	}
	return prefix + "{" + slotTag(key) + "}"
}

// hashTag returns the text of key that a cluster hashes. own is false if that
// is the whole key.
func hashTag(key string) (tag string, own bool) {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag, true
		}
	}
	return key, false
}

// Slots is the number of slots of a cluster.
const Slots = 1 << 14

// Slot returns the slot in which a cluster keeps key.
func Slot(key string) uint16 {
	tag, _ := hashTag(key)
	return slotOf(tag)
}

// slotTag returns three or four characters of [0-9a-z] whose slot is that of
// text.
func slotTag(text string) string {
	tag := tags()[slotOf(text)]
	return strings.TrimRight(string(tag[:]), "\x00")
}

// tags returns the first text of each slot: numbers in base 36, from "100" on.
var tags = sync.OnceValue(func() *[Slots][4]byte {
	found := new([Slots][4]byte)
	for number, left := uint64(36*36), Slots; left > 0; number++ {
		text := strconv.FormatUint(number, 36)
		if tag := &found[slotOf(text)]; tag[0] == 0 {
			copy(tag[:], text)
			left--
		}
	}
	return found
})

// slotOf returns the slot of a tag: CRC-16/XMODEM modulo the number of slots
// (Redis Cluster specification, "Key distribution model").
func slotOf(tag string) uint16 {
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % Slots
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
