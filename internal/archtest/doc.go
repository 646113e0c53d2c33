// Package archtest holds the tests of the project's own shape: which package may import which.
package archtest
