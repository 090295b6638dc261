package volumeinfo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sheetanchor/sheetanchor/internal/gzipjson"
)

// Record is either kind of record.
type Record interface {
	BackupRecord | RestoreRecord
	// Volume returns what identifies the record's volume.
	Volume() VolumeID
}

// Limits bound what [DecodeBackup] and [DecodeRestore] accept from a file. The zero value holds the defaults.
type Limits struct {
	// MaxBytes is the greatest size of the JSON text. Zero or less: 64 MiB.
	MaxBytes int64
	// MaxRecords is the greatest number of records. Zero or less: 200000.
	MaxRecords int
}

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	if l.MaxRecords <= 0 {
		l.MaxRecords = 200_000
	}
	return l
}

// Encode returns the records in Velero's form, gzip of one JSON list, sorted by volume. The same records give the same
// bytes whatever their order; no records give an empty list. It fails only for an Extra that is not JSON, naming the
// volume. The argument is left as it is.
func Encode[R Record](records []R) ([]byte, error) {
	type entry struct {
		volume VolumeID
		text   json.RawMessage
	}
	entries := make([]entry, 0, len(records))
	for _, r := range records {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode record of volume %s: %w", r.Volume(), err)
		}
		entries = append(entries, entry{r.Volume(), text})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(a.volume.Compare(b.volume), bytes.Compare(a.text, b.text))
	})
	texts := make([]json.RawMessage, 0, len(entries))
	for _, e := range entries {
		texts = append(texts, e.text)
	}
	data, err := gzipjson.Encode(texts)
	if err != nil {
		return nil, fmt.Errorf("encode volume info: %w", err)
	}
	return data, nil
}

// DecodeBackup reads a file of backup records, ours or Velero's, in the order of the file. No data, an absent file, is no
// records. Errors are [ErrMalformed], with an [EntryError] when one record is at fault, or [ErrTooLarge].
func DecodeBackup(data []byte, limits Limits) ([]BackupRecord, error) {
	return decode[BackupRecord](data, limits.withDefaults())
}

// DecodeRestore reads a file of restore records as [DecodeBackup] does.
func DecodeRestore(data []byte, limits Limits) ([]RestoreRecord, error) {
	return decode[RestoreRecord](data, limits.withDefaults())
}

func decode[R Record](data []byte, limits Limits) ([]R, error) {
	if len(data) == 0 {
		return nil, nil
	}
	text, err := gzipjson.Expand(data, limits.MaxBytes)
	if errors.Is(err, gzipjson.ErrTooLarge) {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limits.MaxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if len(entries) > limits.MaxRecords {
		return nil, fmt.Errorf("%w: %d records, the limit is %d", ErrTooLarge, len(entries), limits.MaxRecords)
	}
	records := make([]R, len(entries))
	for i, entry := range entries {
		if string(entry) == "null" {
			return nil, &EntryError{Index: i, Err: errors.New("null instead of a record")}
		}
		if err := json.Unmarshal(entry, &records[i]); err != nil {
			return nil, &EntryError{Index: i, Err: err}
		}
	}
	return records, nil
}
