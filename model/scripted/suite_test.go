package scripted_test

import (
	"testing"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/scripted"
)

func newModel(t testing.TB, o scripted.Options) *scripted.Model {
	t.Helper()
	m, err := scripted.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestScriptedModelPassesTheSuite(t *testing.T) {
	modeltest.Run(t, func(t testing.TB, c modeltest.Config) model.Model {
		return newModel(t, scripted.Options{IdleTimeout: c.IdleTimeout})
	})
}
