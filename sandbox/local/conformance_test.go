package local_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVar); dir != "" {
		own(dir) // never returns
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Target {
		return sandboxtest.Target{
			Provider:  local.NewProvider(local.Options{BaseDir: t.TempDir()}),
			HostFiles: true,
			Alive:     alive,
			Refused: []sandbox.CreateOptions{
				{Scope: sandbox.ScopeWorkspace},
				{Scope: sandbox.ScopeLocal},
				{Network: sandbox.Network{Mode: sandbox.NetworkDeny}},
				{Network: sandbox.Network{Mode: sandbox.NetworkHosts, Hosts: []string{"example.com"}}},
			},
		}
	})
}
