package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var modelTests = []test{
	{"random histories of a few conversations keep to the lease rules", func(e *env) {
		n := 0
		rapid.Check(e.T, func(rt *rapid.T) {
			n++
			m := &model{e: e, rt: rt, tenant: fmt.Sprint("tn_model_", n), runs: map[string]*modelRun{}}
			rt.Repeat(map[string]func(*rapid.T){
				"create": m.create, "append": m.append, "stale": m.stale, "ask": m.ask, "decide": m.decide, "take": m.take,
				"park": m.park, "steer": m.steer, "cancel": m.cancel, "finish": m.finish, "": m.check,
			})
		})
	}},
}

// model is what the store must hold after each step: a run machine in a few lines. Its owners are always alive.
type model struct {
	e      *env
	rt     *rapid.T
	tenant string
	runs   map[string]*modelRun
	order  []string
}

type modelRun struct {
	store.Run
	pending []string // approvals that wait
	arrived []string // answers that no owner has taken
	steered int64    // undelivered messages
}

func (m *model) ok(err error) {
	if err != nil {
		m.rt.Fatal(err)
	}
}

// pick draws a run with the property, or nil.
func (m *model) pick(has func(*modelRun) bool) *modelRun {
	var list []string
	for _, id := range m.order {
		if has(m.runs[id]) {
			list = append(list, id)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return m.runs[rapid.SampledFrom(list).Draw(m.rt, "run")]
}

func running(r *modelRun) bool { return r.Status == store.StatusRunning }

// leased applies a lease that the model expects, and checks that the store gave just that.
func (m *model) leased(r *modelRun, w store.Wake) {
	if r == nil {
		if w != (store.Wake{}) {
			m.rt.Fatalf("wake %+v, want none", w)
		}
		return
	}
	r.Epoch++
	r.Status = store.StatusRunning
	if w != (store.Wake{RunID: r.ID, Epoch: r.Epoch}) {
		m.rt.Fatalf("wake %+v, want run %s with epoch %d", w, r.ID, r.Epoch)
	}
}

func (m *model) parkedOrNil(r *modelRun) *modelRun {
	if r.Status.Waiting() {
		return r
	}
	return nil
}

func (m *model) create(*rapid.T) {
	id := m.e.id("run")
	conv := rapid.SampledFrom([]string{"cv_a", "cv_b"}).Draw(m.rt, "conversation")
	lease := rapid.Bool().Draw(m.rt, "lease")
	free := true
	for _, r := range m.runs {
		free = free && (r.ConversationID != conv || r.Status.Terminal())
	}
	c, err := m.e.CreateRun(m.e.ctx, store.NewRun{ID: id, TenantID: m.tenant, ConversationID: conv, Lease: lease})
	m.ok(err)
	if c.Leased != (lease && free) {
		m.rt.Fatalf("leased %v, asked %v, conversation free %v", c.Leased, lease, free)
	}
	m.runs[id] = &modelRun{Run: c.Run}
	m.order = append(m.order, id)
}

func (m *model) append(*rapid.T) {
	if r := m.pick(running); r != nil {
		_, err := m.e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, Events: []store.NewEvent{delta(r.Run, "x")}})
		m.ok(err)
		r.Head++
	}
}

func (m *model) stale(*rapid.T) {
	r := m.pick(func(*modelRun) bool { return true })
	if r == nil {
		return
	}
	epoch := r.Epoch
	if running(r) {
		epoch += rapid.SampledFrom([]int64{-1, 1}).Draw(m.rt, "off by")
	}
	_, err := m.e.submit(store.Batch{RunID: r.ID, Epoch: epoch, Events: []store.NewEvent{delta(r.Run, "x")}})
	if !errors.Is(err, store.ErrFenced) {
		m.rt.Fatalf("a stale write: %v", err)
	}
}

func (m *model) ask(*rapid.T) {
	if r := m.pick(running); r != nil {
		a := event.Approval{ID: m.e.id("ap"), ExpiresAt: m.e.clock().Add(time.Hour)}
		_, err := m.e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, Approvals: []event.Approval{a}})
		m.ok(err)
		r.pending = append(r.pending, a.ID)
	}
}

func (m *model) decide(*rapid.T) {
	r := m.pick(func(r *modelRun) bool { return len(r.pending) > 0 })
	if r == nil {
		return
	}
	i := rapid.IntRange(0, len(r.pending)-1).Draw(m.rt, "approval")
	id := r.pending[i]
	_, w, err := m.e.Decide(m.e.ctx, store.Decision{ApprovalID: id, TenantID: m.tenant, Approve: rapid.Bool().Draw(m.rt, "approve")})
	m.ok(err)
	r.Head++
	r.pending = slices.Delete(r.pending, i, i+1)
	r.arrived = append(r.arrived, id)
	m.leased(m.parkedOrNil(r), w)
}

// take is an owner that takes everything that has arrived.
func (m *model) take(*rapid.T) {
	if r := m.pick(running); r != nil {
		_, err := m.e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, SettleApprovals: r.arrived, SteerDelivered: 1 << 60})
		m.ok(err)
		r.arrived, r.steered = nil, 0
	}
}

func (m *model) park(*rapid.T) {
	r := m.pick(running)
	if r == nil {
		return
	}
	parked, err := m.e.Park(m.e.ctx, store.Park{RunID: r.ID, Epoch: r.Epoch, Status: store.StatusWaitingForApproval})
	m.ok(err)
	if want := len(r.arrived) == 0 && r.steered == 0 && !r.CancelRequested; parked != want {
		m.rt.Fatalf("parked %v with %d answers, %d messages, cancel %v", parked, len(r.arrived), r.steered, r.CancelRequested)
	}
	if parked {
		r.Status = store.StatusWaitingForApproval
	}
}

func (m *model) steer(*rapid.T) {
	if r := m.pick(func(r *modelRun) bool { return !r.Status.Terminal() }); r != nil {
		w, err := m.e.Steer(m.e.ctx, m.tenant, r.ID, store.SteerInput{Text: "x", By: "me"})
		m.ok(err)
		r.steered++
		m.leased(m.parkedOrNil(r), w)
	}
}

func (m *model) cancel(*rapid.T) {
	r := m.pick(func(*modelRun) bool { return true })
	if r == nil {
		return
	}
	_, w, err := m.e.RequestCancel(m.e.ctx, m.tenant, r.ID, "me")
	m.ok(err)
	if r.Status.Terminal() {
		m.leased(nil, w)
		return
	}
	r.CancelRequested = true
	if running(r) {
		m.leased(nil, w)
	} else {
		m.leased(r, w)
	}
}

func (m *model) finish(*rapid.T) {
	r := m.pick(running)
	if r == nil {
		return
	}
	w, err := m.e.Finish(m.e.ctx, finishing(r.Run, store.StatusCompleted))
	m.ok(err)
	r.Status = store.StatusCompleted
	r.Head += int64(len(r.pending)) + 1
	r.pending = nil
	var next *modelRun
	for _, id := range m.order {
		o := m.runs[id]
		switch {
		case o.ConversationID != r.ConversationID || o.Status.Terminal():
		case o.Status != store.StatusQueued:
			m.leased(nil, w) // another one is at work
			return
		case next == nil:
			next = o
		}
	}
	m.leased(next, w)
}

// check compares the store with the model.
func (m *model) check(*rapid.T) {
	for _, id := range m.order {
		want, got := m.runs[id], m.e.get(id)
		if got.Status != want.Status || got.Epoch != want.Epoch || got.Head != want.Head || got.CancelRequested != want.CancelRequested {
			m.rt.Fatalf("run %s is %s, epoch %d, head %d, cancel %v; want %s, %d, %d, %v", id, got.Status, got.Epoch, got.Head,
				got.CancelRequested, want.Status, want.Epoch, want.Head, want.CancelRequested)
		}
	}
}
