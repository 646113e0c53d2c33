// Package api has the wire types of the HTTP API: what its requests and answers look like as JSON, and the list of
// problem codes.
//
// It owns shapes and names only, so that the server and the client cannot drift apart. It has no behaviour beyond
// encoding, knows no transport and decides nothing. Members are added, never renamed or taken away; a code keeps its
// meaning and its status.
package api
