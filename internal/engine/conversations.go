package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
)

// Conversations lists conversations of the principal's tenant. The one whose last run was created last comes first.
func (e *Engine) Conversations(ctx context.Context, p Principal, o store.ConversationList) ([]store.Conversation, string, error) {
	o.TenantID = p.TenantID
	return e.o.Store.ListConversations(ctx, o)
}

// Conversation returns a conversation of the principal's tenant, with its items counted.
func (e *Engine) Conversation(ctx context.Context, p Principal, id string) (store.Conversation, error) {
	c, err := e.o.Store.GetConversation(ctx, p.TenantID, id)
	return c, noConversation(err, id)
}

// MessageCount is how many messages the transcript items make.
func MessageCount(items map[string]int) int {
	n := 0
	for _, kind := range []native.ItemKind{native.KindPrompt, native.KindSteer, native.KindAnswer, native.KindCompaction} {
		n += items[string(kind)]
	}
	return n
}

// noConversation turns the store's answer about a conversation into a refusal.
func noConversation(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound("conversation %s does not exist", id)
	}
	return err
}

// Messages returns messages of a conversation with an id above after, in order. next is the id to go on after, 0 after
// the last page. A page has at most limit messages, and fewer where they are large.
func (e *Engine) Messages(ctx context.Context, p Principal, id string, after int64, limit int) (list []Message, next int64, err error) {
	var r reading
	for at, full := after, false; !full; {
		items, err := e.o.Store.Transcript(ctx, p.TenantID, id, at, max(2*limit, 64))
		if err != nil {
			return nil, 0, err
		}
		if len(items) == 0 {
			if at == after {
				if _, err := e.Conversation(ctx, p, id); err != nil {
					return nil, 0, err
				}
			}
			r.end()
			break
		}
		for _, it := range items {
			at = it.Idx
			if r.take(it); len(r.done) > limit || (len(r.done) > 0 && r.size > store.PageBytes) {
				full = true
				break
			}
		}
	}
	list = r.done
	if len(list) > limit {
		list = list[:limit]
	}
	if len(list) < len(r.done) || r.open != nil {
		next = list[len(list)-1].ID
	}
	return list, next, nil
}

// ConversationRuns lists the runs of a conversation, newest first.
func (e *Engine) ConversationRuns(ctx context.Context, p Principal, id, cursor string, limit int) ([]store.Run, string, error) {
	runs, next, err := e.Runs(ctx, p, store.ListOptions{ConversationID: id, Cursor: cursor, Limit: limit})
	if err == nil && len(runs) == 0 {
		_, err = e.Conversation(ctx, p, id)
	}
	return runs, next, err
}

// SearchConversations finds what was said in the conversations of the principal's tenant. See store.SearchQuery.
func (e *Engine) SearchConversations(ctx context.Context, p Principal, q store.SearchQuery) ([]store.SearchHit, string, error) {
	if !e.keeping.Load() { // nothing indexes in the background here
		if err := e.FlushSearch(ctx); err != nil {
			return nil, "", err
		}
	}
	q.TenantID = p.TenantID
	return e.o.Store.Search(ctx, q)
}

// DeleteConversation deletes a conversation with everything that belongs to it. It is gone when this returns; rows are
// removed in the background.
func (e *Engine) DeleteConversation(ctx context.Context, p Principal, id string) error {
	d, err := e.bury(ctx, p.TenantID, id)
	var open *store.OpenRunsError
	switch {
	case errors.As(err, &open):
		c := conflict("conversation_active", "conversation %s has runs that have not ended: cancel them first", id)
		c.Details = map[string]any{"runs": open.Runs}
		return c
	case err != nil:
		return noConversation(err, id)
	}
	if !e.keeping.Load() {
		return e.purge(ctx, d)
	}
	e.keeper.purge()
	return nil
}

// bury deletes a conversation for readers, and its artifacts. No run is created meanwhile: one of a new conversation
// with the same id could lose artifacts of its own.
func (e *Engine) bury(ctx context.Context, tenant, id string) (store.Deletion, error) {
	e.births.Lock()
	defer e.births.Unlock()
	d, err := e.o.Store.DeleteConversation(ctx, tenant, id)
	if err != nil {
		return d, err
	}
	e.tenants.clear()
	e.o.Fault("conversation.deleted")
	return d, e.removeFiles(ctx, &d)
}

// removeFiles removes what a deleted conversation has outside of the store.
func (e *Engine) removeFiles(ctx context.Context, d *store.Deletion) error {
	if !d.Files {
		return nil
	}
	// A failed removal is tried again; by then the id may have begun afresh, and then its folder is not the old one's.
	_, err := e.o.Store.GetConversation(ctx, d.TenantID, d.ConversationID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if err := e.artifacts.Remove(artifactsOf(d.TenantID, d.ConversationID)); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := e.o.Store.FilesRemoved(ctx, *d); err != nil {
		return err
	}
	d.Files = false
	return nil
}

// artifactsOf names the artifacts of a conversation. Tenants choose their ids, so the id alone could be another's.
func artifactsOf(tenant, conversation string) string { return tenant + "\x00" + conversation }

// purge removes the rows of a deleted conversation.
func (e *Engine) purge(ctx context.Context, d store.Deletion) error {
	for more := true; more; {
		var err error
		if more, err = e.o.Store.Purge(ctx, d); err != nil {
			return fmt.Errorf("engine: purge of conversation %s: %w", d.ConversationID, err)
		}
		e.o.Fault("conversation.purged")
	}
	return nil
}

// ForkRequest says after what a fork begins: the end of a run, or of the run that a message belongs to. Without either
// it is the last run that has ended.
type ForkRequest struct {
	RunID   string `json:"run_id,omitempty" doc:"the copy ends with this run"`
	Message int64  `json:"message,omitempty" minimum:"1" doc:"the copy ends with the run that this message belongs to"`
}

// ForkConversation makes a conversation that begins as a copy of another one. A run of it goes on from there.
func (e *Engine) ForkConversation(ctx context.Context, p Principal, id string, req ForkRequest) (store.Conversation, error) {
	origin, err := e.Conversation(ctx, p, id)
	if err != nil {
		return store.Conversation{}, err
	}
	switch {
	case req.RunID != "" && req.Message != 0:
		return store.Conversation{}, invalid("message", "give either run_id or message")
	case req.Message < 0:
		return store.Conversation{}, invalid("message", "must be the id of a message")
	case req.Message > 0:
		items, err := e.o.Store.Transcript(ctx, p.TenantID, id, req.Message-1, 1)
		if err != nil {
			return store.Conversation{}, err
		}
		if len(items) == 0 || items[0].Idx != req.Message {
			return store.Conversation{}, invalid("message", "conversation %s has no message %d", id, req.Message)
		}
		req.RunID = items[0].RunID
	}
	if len(origin.Items) == 0 {
		return store.Conversation{}, conflict("nothing_to_fork", "conversation %s has no messages here that a fork could begin with", id)
	}
	to := newID("conv_")
	c, err := e.o.Store.Fork(ctx, store.Fork{
		TenantID: p.TenantID, ConversationID: id, RunID: req.RunID, ID: to,
		Prepare: func(context.Context) error {
			e.o.Fault("conversation.copied")
			return e.artifacts.Link(artifactsOf(p.TenantID, id), artifactsOf(p.TenantID, to))
		},
	})
	var open *event.ConflictError
	switch {
	case errors.As(err, &open):
		err = conflict("run_not_finished", "%s is %s: a fork begins after the end of a run", open.What, open.Status)
	case errors.Is(err, store.ErrNotFound) && req.RunID != "":
		err = invalid("run_id", "conversation %s has no run %s", id, req.RunID)
	case errors.Is(err, store.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		err = noConversation(store.ErrNotFound, id)
	}
	if err != nil {
		e.keeper.purge() // what is half made
		return store.Conversation{}, err
	}
	e.keeper.spoken()
	return c, nil
}

// maxCleanUp bounds one call of CleanUpConversations.
const maxCleanUp = 500

// CleanUpConversations deletes the conversations of the principal's tenant that have no open run and did not change
// for a number of days, oldest first. more reports that there are further ones: call it again.
func (e *Engine) CleanUpConversations(ctx context.Context, p Principal, maxAgeDays int) (deleted int, more bool, err error) {
	if maxAgeDays < 1 || maxAgeDays > 36500 {
		return 0, false, invalid("max_age_days", "must be between 1 and 36500")
	}
	before := e.o.Now().Add(-time.Duration(maxAgeDays) * 24 * time.Hour)
	ids, err := e.o.Store.OldConversations(ctx, p.TenantID, before, maxCleanUp)
	if err != nil {
		return 0, false, err
	}
	for _, id := range ids {
		err := e.DeleteConversation(ctx, p, id)
		var refused *Error
		switch {
		case errors.As(err, &refused): // it began to work again, or somebody else deleted it
		case err != nil:
			return deleted, true, err
		default:
			deleted++
		}
	}
	return deleted, len(ids) == maxCleanUp, nil
}
