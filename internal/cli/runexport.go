package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/harness-go/harness/internal/api"
)

func (a *app) runsExport() *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Write a run and its log as lines of JSON", Args: cobra.ExactArgs(1),
		Long: `Write a run and its log as lines of JSON, to standard output or a file. The first line has the run and tells
the format, then comes each event, and the last line tells that the export is whole. Of an active run
everything up to now is written.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), toRead, func(l *link) error {
				write := func(w io.Writer) error { return a.exportRun(cmd.Context(), l, args[0], w) }
				if file == "" {
					return write(a.out)
				}
				return a.whole(file, force, write)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this file")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// exportRun writes a run with its events up to now.
func (a *app) exportRun(ctx context.Context, l *link, id string, w io.Writer) error {
	r, err := l.GetRun(ctx, id)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	lines := 0
	line := func(v api.RunExportLine) error {
		lines++
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		return nil
	}
	now := a.now().UTC()
	if err := line(api.RunExportLine{Type: "run", Format: api.RunExportFormat, Version: api.RunExportVersion, ExportedAt: &now, Run: &r}); err != nil {
		return err
	}
	for ev, err := range l.Events(ctx, id, 0) {
		if err != nil {
			return err
		}
		if err := line(api.RunExportLine{Type: "event", Event: &ev}); err != nil {
			return err
		}
		if ev.Seq >= r.LastSeq {
			break
		}
	}
	return line(api.RunExportLine{Type: "end", Lines: lines})
}

// whole writes a file that is complete, or none.
func (a *app) whole(file string, force bool, write func(io.Writer) error) error {
	if !filepath.IsAbs(file) {
		file = filepath.Join(a.dir, file)
	}
	if _, err := os.Lstat(file); err == nil && !force {
		return usageError("%s exists: choose another name, or replace it with --force", file)
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usageError("%s exists: another export writes it, or left it behind; remove it", part)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	a.infof("written to %s", file)
	return nil
}
