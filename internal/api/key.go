package api

import "time"

// Key is an API key as it is kept: never the key itself.
type Key struct {
	ID        string     `json:"id"`
	Prefix    string     `json:"prefix" doc:"the key's first characters, to tell keys apart"`
	TenantID  string     `json:"tenant_id"`
	Name      string     `json:"name"`
	Scopes    []string   `json:"scopes"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	LastUsed  *time.Time `json:"last_used_at,omitempty"`
}

// KeyRequest asks for a new key.
type KeyRequest struct {
	Name string `json:"name" maxLength:"100"`
	// Scopes is the list of what the key may do.
	Scopes []string `json:"scopes" minItems:"1" doc:"runs:read, runs:write, runs:unrestricted, approvals:decide, metrics:read, admin"`
	// TenantID: only a caller inside the node may name another tenant than its own.
	TenantID string `json:"tenant_id,omitempty" doc:"the caller's own tenant by default; only callers on the node itself may name another"`
	// ExpiresIn is a Go duration; empty means that the key does not expire.
	ExpiresIn string `json:"expires_in,omitempty" doc:"a duration such as 720h; a key without one does not expire"`
}

// KeyCreated is the answer to a KeyRequest. Secret is the key itself, which cannot be had again.
type KeyCreated struct {
	Key
	Secret string `json:"secret" doc:"the key itself; it is shown this once"`
}

// KeyList lists keys, oldest first.
type KeyList struct {
	Keys []Key `json:"keys"`
}

// KeyRevoked answers the end of a key.
type KeyRevoked struct {
	ID     string `json:"id"`
	Status string `json:"status" enum:"revoked"`
}

// KeyRotation asks for the successor of a key.
type KeyRotation struct {
	// Overlap is how long the old key goes on to be valid, as a Go duration.
	Overlap string `json:"overlap,omitempty" doc:"how long the old key stays valid, from 0s to 2160h; 24h by default"`
	// ExpiresIn is that of the new key.
	ExpiresIn string `json:"expires_in,omitempty" doc:"a duration such as 720h; a key without one does not expire"`
}

// KeyRotated is the new key. Secret is the key itself, which cannot be had again.
type KeyRotated struct {
	Key
	Secret       string    `json:"secret" doc:"the new key itself; it is shown this once"`
	Replaces     string    `json:"replaces" doc:"id of the old key"`
	OldExpiresAt time.Time `json:"old_expires_at" doc:"end of the old key"`
}
