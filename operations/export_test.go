package operations

// NewFileStoreFS makes a file store on another file system than the real one.
var NewFileStoreFS = newFileStore
