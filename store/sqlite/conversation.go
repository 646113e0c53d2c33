package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// GetConversation tells what a conversation's runs add up to.
func (s *Store) GetConversation(ctx context.Context, tenantID, id string) (store.Conversation, error) {
	var conv int64
	if err := s.readers.row(ctx, `SELECT coalesce(`+convOf+`, 0)`, []any{tenantID, id}, &conv); err != nil {
		return store.Conversation{}, fmt.Errorf("conversation %s: %w", id, err)
	}
	if conv == 0 {
		return store.Conversation{}, fmt.Errorf("conversation %s: %w", id, store.ErrNotFound)
	}
	c, err := s.sumUp(ctx, conv, tenantID, id)
	if err != nil {
		return store.Conversation{}, err
	}
	c.Items = map[string]int{}
	err = s.readers.search(ctx, `SELECT kind, count(*) FROM transcript WHERE conv = ? GROUP BY kind`, []any{conv}, func(sc scanner) error {
		var kind string
		var n int
		err := sc.Scan(&kind, &n)
		c.Items[kind] = n
		return err
	})
	return c, err
}

// sumUp reads a conversation's beginning and its runs. One that was deleted meanwhile is not found.
func (s *Store) sumUp(ctx context.Context, conv int64, tenantID, id string) (store.Conversation, error) {
	c := store.Conversation{ID: id, TenantID: tenantID}
	var created int64
	var title string
	err := s.readers.row(ctx, `SELECT title, from_conversation, from_run, created_at FROM live_forks WHERE conv = ?`, []any{conv},
		&title, &c.ForkedFrom, &c.ForkedRun, &created)
	if errors.Is(err, store.ErrNotFound) {
		err = s.readers.row(ctx, `SELECT substr(i.prompt, 1, ?), r.created_at FROM live r JOIN run_inputs i ON i.run = r.id WHERE r.id = ?`,
			[]any{2 * store.MaxTitle, conv}, &title, &created)
	}
	if err != nil {
		return c, fmt.Errorf("conversation %s: %w", id, err)
	}
	c.Title, c.CreatedAt = titleOf(title), fromNanos(created)
	c.UpdatedAt = c.CreatedAt
	err = s.readers.search(ctx, `SELECT r.run_id, r.status, r.agent_id, r.usage, r.cost,
		max(r.updated_at, coalesce((SELECT time FROM events WHERE run = r.id ORDER BY seq DESC LIMIT 1), 0))
		FROM live r WHERE r.tenant_id = ? AND r.conversation_id = ? AND r.conv = ? ORDER BY r.id`,
		[]any{tenantID, id, conv}, func(sc scanner) error {
			var usage, cost string
			var updated int64
			if err := sc.Scan(&c.LastRunID, &c.LastStatus, &c.AgentID, &usage, &cost, &updated); err != nil {
				return err
			}
			c.Runs++
			if at := fromNanos(updated); at.After(c.UpdatedAt) {
				c.UpdatedAt = at
			}
			return add(&c, usage, cost)
		})
	return c, err
}

// add adds a run's usage and cost to the sums.
func add(c *store.Conversation, usage, cost string) error {
	if usage != "" {
		var u event.UsageTotals
		if err := json.Unmarshal([]byte(usage), &u); err != nil {
			return fmt.Errorf("run %s: usage: %w", c.LastRunID, err)
		}
		c.Usage.PromptTokensTotal += u.PromptTokensTotal
		c.Usage.CompletionTokensTotal += u.CompletionTokensTotal
		c.Usage.CachedTokensTotal += u.CachedTokensTotal
		c.Usage.ReasoningTokensTotal += u.ReasoningTokensTotal
		c.Usage.TotalTokens += u.TotalTokens
		c.Usage.LastTurnTokens = u.LastTurnTokens
	}
	if cost != "" {
		var m event.CostTotals
		if err := json.Unmarshal([]byte(cost), &m); err != nil {
			return fmt.Errorf("run %s: cost: %w", c.LastRunID, err)
		}
		c.Cost.CostUSDTotal += m.CostUSDTotal
		c.Cost.LastTurnCostUSD = m.LastTurnCostUSD
		if slices.Index(certainty, m.CostStatus) > slices.Index(certainty, c.Cost.CostStatus) {
			c.Cost.CostStatus = m.CostStatus
		}
		if m.PricingVersion != "" {
			c.Cost.PricingVersion = m.PricingVersion
		}
	}
	return nil
}

// certainty orders the statuses of costs: a sum is as certain as its least certain part. Pending is the status of a
// run that has not been charged anything.
var certainty = []event.CostStatus{"", event.CostPending, event.CostAvailable, event.CostProviderUnreported, event.CostUnpricedModel}

// titleOf makes one line of a prompt.
func titleOf(prompt string) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(prompt, "")), " ")
	if len(s) <= store.MaxTitle {
		return s
	}
	cut := store.MaxTitle - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.TrimRight(s[:cut], " ") + "…"
}

// found is a conversation in a list: its place, its key and its id.
type found struct {
	at, conv int64
	id       string
}

// newestOfConversation is true for a run r that is the last one of its conversation.
const newestOfConversation = `NOT EXISTS (SELECT 1 FROM runs o WHERE o.tenant_id = r.tenant_id AND o.conversation_id = r.conversation_id
	AND o.id > r.id AND o.conv = r.conv)`

// ListConversations lists the conversations of a tenant by their last runs, newest first; a fork without a run stands
// where it was made. See store.Conversations.
func (s *Store) ListConversations(ctx context.Context, o store.ConversationList) ([]store.Conversation, string, error) {
	list := func(query func(f *filter)) ([]found, *filter, error) {
		f, err := newFilter("conversations", store.ListOptions{Cursor: o.Cursor, Limit: o.Limit})
		if err != nil {
			return nil, nil, err
		}
		query(f)
		var rows []found
		err = s.readers.search(ctx, f.list+f.sql(), f.args, func(sc scanner) error {
			var x found
			err := sc.Scan(&x.at, &x.conv, &x.id)
			rows = append(rows, x)
			return err
		})
		return rows, f, err
	}
	rows, f, err := list(func(f *filter) {
		f.list = `SELECT r.id, r.conv, r.conversation_id FROM live r`
		f.where(`r.tenant_id = ?`, o.TenantID)
		if o.AgentID != "" {
			f.where(`r.agent_id = ? AND r.agent_id <> ''`, o.AgentID)
		}
		f.where(newestOfConversation)
		f.page(`r.id`)
	})
	if err != nil {
		return nil, "", err
	}
	if o.AgentID == "" {
		forks, _, err := list(func(f *filter) {
			f.list = `SELECT f.conv, f.conv, f.conversation_id FROM live_forks f`
			f.where(`f.tenant_id = ?`, o.TenantID)
			f.where(`NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant_id = f.tenant_id AND r.conversation_id = f.conversation_id AND r.conv = f.conv)`)
			f.page(`f.conv`)
		})
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, forks...)
		slices.SortFunc(rows, func(a, b found) int { return cmp.Compare(b.at, a.at) })
	}
	keys := make([]int64, len(rows))
	for i, x := range rows {
		keys[i] = x.at
	}
	f.list = "conversations"
	n, next := 0, ""
	if n, next = f.next(keys[:min(len(keys), f.limit+1)]); n == 0 {
		return nil, "", nil
	}
	out := make([]store.Conversation, 0, n)
	for _, x := range rows[:n] {
		switch c, err := s.sumUp(ctx, x.conv, o.TenantID, x.id); {
		case errors.Is(err, store.ErrNotFound): // deleted meanwhile
		case err != nil:
			return nil, "", err
		default:
			out = append(out, c)
		}
	}
	return out, next, nil
}

// OldConversations lists what nobody has touched for long. See store.Conversations.
func (s *Store) OldConversations(ctx context.Context, tenantID string, before time.Time, limit int) ([]string, error) {
	if limit < 1 {
		return nil, nil
	}
	var ids []string
	// Runs come in the order of their making, so the first one that was made later than before ends the search.
	err := s.readers.search(ctx, `SELECT r.conversation_id, r.created_at, coalesce(r.finished_at, 9223372036854775807),
		EXISTS (SELECT 1 FROM runs o WHERE o.conv = r.conv AND o.finished_at IS NULL)
		FROM live r WHERE r.tenant_id = ? AND `+newestOfConversation+` ORDER BY r.id`, []any{tenantID},
		func(sc scanner) error {
			var id string
			var created, finished int64
			var open bool
			if err := sc.Scan(&id, &created, &finished, &open); err != nil {
				return err
			}
			if created >= nanos(before) {
				return errEnough
			}
			if finished < nanos(before) && !open {
				if ids = append(ids, id); len(ids) == limit {
					return errEnough
				}
			}
			return nil
		})
	if err != nil || len(ids) == limit {
		return ids, err
	}
	err = s.readers.search(ctx, `SELECT f.conversation_id FROM live_forks f WHERE f.tenant_id = ? AND f.created_at < ?
		AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant_id = f.tenant_id AND r.conversation_id = f.conversation_id AND r.conv = f.conv)
		ORDER BY f.conv LIMIT ?`, []any{tenantID, nanos(before), limit - len(ids)}, func(sc scanner) error {
		var id string
		err := sc.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}
