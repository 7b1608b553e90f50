package org.tosnotebook;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;

/** TFRecord files as output of a Spark job: keys are BytesWritable, values are not written. */
public class TFRecordOutput extends FileOutputFormat {
  public RecordWriter getRecordWriter(TaskAttemptContext context) throws IOException {
    Path path = getDefaultWorkFile(context, "");
    return new TFRecordWriter(path.getFileSystem(context.getConfiguration()).create(path, false));
  }
}

/** TFRecord files as input of a Spark job, each one partition; compressed ones by their names. */
public class TFRecordInput extends FileInputFormat {
  protected List listStatus(JobContext context) throws IOException {
    // Local file systems list their files in any order.
    List files = new ArrayList(super.listStatus(context));
    Collections.sort(files);
    return files;
  }

  protected boolean isSplitable(JobContext context, Path path) {
    return false;
  }

  public RecordReader createRecordReader(InputSplit split, TaskAttemptContext context) {
    return new TFRecordReader();
  }
}

/** The bytes around a record's own: its length with a checksum before it, its checksum behind. */
class Frame {
  static final int SUM = 4;
  static final int LENGTH = 8;
  static final int HEAD = LENGTH + SUM;

  static int sum(byte[] bytes, int length) {
    CRC32C crc = new CRC32C();
    crc.update(bytes, 0, length);
    int value = (int) crc.getValue();
    return ((value >>> 15) | (value << 17)) + 0xa282ead8;
  }

  static ByteBuffer of(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }
}

class TFRecordWriter extends RecordWriter {
  private final OutputStream file;
  private final byte[] head = new byte[Frame.HEAD];
  private final byte[] tail = new byte[Frame.SUM];

  TFRecordWriter(OutputStream file) {
    this.file = file;
  }

  public void write(Object key, Object value) throws IOException {
    byte[] bytes = ((BytesWritable) key).getBytes();
    int length = ((BytesWritable) key).getLength();
    ByteBuffer start = Frame.of(head);
    start.putLong(0, (long) length);
    start.putInt(Frame.LENGTH, Frame.sum(head, Frame.LENGTH));
    Frame.of(tail).putInt(0, Frame.sum(bytes, length));
    file.write(head);
    file.write(bytes, 0, length);
    file.write(tail);
  }

  public void close(TaskAttemptContext context) throws IOException {
    file.close();
  }
}

class TFRecordReader extends RecordReader {
  private final byte[] head = new byte[Frame.HEAD];
  private final byte[] tail = new byte[Frame.SUM];
  private Path path;
  private InputStream file;
  private long offset = 0;
  private boolean compressed;
  private BytesWritable record;

  public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
    Configuration conf = context.getConfiguration();
    path = ((FileSplit) split).getPath();
    file = path.getFileSystem(conf).open(path);
    CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
    compressed = codec != null;
    if (compressed) {
      file = codec.createInputStream(file);
    }
  }

  public boolean nextKeyValue() throws IOException {
    String wrong;
    try {
      int found = file.readNBytes(head, 0, Frame.HEAD);
      if (found == 0) {
        return false;
      }
      wrong = read(found);
    } catch (IOException error) {
      wrong = "cannot be read (" + error + ").";
    }
    if (wrong != null) {
      // Not an exception of our own, whose message would be lost: the driver could not load it.
      String where = compressed ? " of what it unpacks to " : " ";
      throw new IOException(
          "TFRecord file " + path + ": the record at byte " + offset + where + wrong);
    }
    return true;
  }

  /** Read the record of which so many bytes are there; return what is wrong with it, or null. */
  private String read(int found) throws IOException {
    if (found < Frame.HEAD) {
      return "ends too early: the file was cut off.";
    }
    ByteBuffer start = Frame.of(head);
    if (start.getInt(Frame.LENGTH) != Frame.sum(head, Frame.LENGTH)) {
      return "is damaged: the checksum of its length is wrong." + advice();
    }
    long length = start.getLong(0);
    if (length < 0 || length > Integer.MAX_VALUE - 64) {
      return "has " + length + " bytes, more than Java can hold in one array.";
    }
    byte[] bytes = file.readNBytes((int) length);
    if (bytes.length < length || file.readNBytes(tail, 0, Frame.SUM) < Frame.SUM) {
      return "ends too early: the file was cut off.";
    }
    if (Frame.of(tail).getInt(0) != Frame.sum(bytes, bytes.length)) {
      return "is damaged: its checksum is wrong. Write the file again.";
    }
    record = new BytesWritable(bytes);
    offset += Frame.HEAD + length + Frame.SUM;
    return null;
  }

  private String advice() {
    boolean gzip = offset == 0 && (head[0] & 0xff) == 0x1f && (head[1] & 0xff) == 0x8b;
    return gzip ? " The file is gzipped: let its name end with .gz." : " Write the file again.";
  }

  public Object getCurrentKey() {
    return record;
  }

  public Object getCurrentValue() {
    return NullWritable.get();
  }

  public float getProgress() {
    return 0.0f;
  }

  public void close() throws IOException {
    if (file != null) {
      file.close();
    }
  }
}
