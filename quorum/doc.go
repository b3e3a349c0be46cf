// Package quorum takes a lock on a majority of independent servers.
package quorum
