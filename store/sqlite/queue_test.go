package sqlite

import "testing"

func TestACloseThatSharesASignalWithAWriteIsSeen(t *testing.T) {
	q := newQueue()
	if err := q.push(&op{}); err != nil {
		t.Fatal(err)
	}
	q.close() // the signal of the write is still there, so this one adds none
	<-q.wake
	if group, more := q.take(nil); len(group) != 1 || !more {
		t.Fatalf("group of %d, more %v", len(group), more)
	}
	select {
	case <-q.wake:
	default:
		t.Fatal("the writer would wait for ever")
	}
	if group, more := q.take(nil); len(group) != 0 || more {
		t.Fatalf("group of %d, more %v", len(group), more)
	}
}
