// Package record is what packages migrate and migrate/fleet share of the
// registry on the server: the names of its keys, the form of its texts, and the
// scripts that change it. What the texts mean stands in package migrate.
package record
