"""The original's MNIST program; only its imports and the lines above and below it are ours.

    python mission_program.py DATA BATCH_SIZE [DIRECTORY]

The master is the one that the surroundings name, and the graph goes to a directory that may be
on any file system.
"""

import json
import sys

import tensorflow.compat.v1 as tf

import tos_notebook
from tos_notebook.tensorspark import mnist
from tos_notebook.tensorspark import partitioner as par
from tos_notebook.tensorspark import spark_session as sps
from tos_notebook.training.factory import watchers

sc = tos_notebook.connect(warm_up=False).sparkContext
mnist.set_data_dir(sys.argv[1])
num_partition, num_epoch, batch_size = 2, 2, int(sys.argv[2])
sps.temporary_directory = sys.argv[3] if len(sys.argv) > 3 else None
runs = []
watchers.append(runs.append)

# fmt: off
image_rdd = mnist.extract_images(sc, mnist.train_image_path)
label_rdd = mnist.extract_labels(sc, mnist.train_label_path, num_class=10, one_hot=True)
# image_label_rdd is the rdd where each entry is the tuple of (image, label)
image_label_rdd = image_rdd.join(label_rdd, numPartitions=num_partition).mapPartitions(mnist.flatten_image_label).cache()  # noqa: E501

x = tf.placeholder(tf.float32, [None, 784])
W = tf.Variable(tf.zeros([784, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
y_ = tf.placeholder(tf.float32, [None, 10])
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
init = tf.initialize_all_variables()
sess = tf.Session()
sess.run(init)

feed_name_list = [x.name, y_.name]
param_list = [W, b]

spark_sess = sps.SparkSession(sc, sess, user='liangfengsid', name='spark_mnist', server_host='localhost',  # noqa: E501
                              server_port=10080, sync_interval=100, batch_size=batch_size)
partitioner = par.RandomPartitioner(num_partition)
for i in range(num_epoch):
    spark_sess.run(train_step, feed_rdd=image_label_rdd, feed_name_list=feed_name_list, param_list=param_list,  # noqa: E501
                   shuffle_within_partition=True)
    if i != num_epoch-1:
        temp_image_label_rdd = image_label_rdd.partitionBy(num_partition, partitioner).cache()
        image_label_rdd.unpersist()
        image_label_rdd = temp_image_label_rdd
# fmt: on

test_images = mnist.extract_images(sc, mnist.test_image_path)
test_labels = mnist.extract_labels(sc, mnist.test_label_path, num_class=10, one_hot=True)
pairs = test_images.join(test_labels).mapPartitions(mnist.flatten_image_label).collect()
hit = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1)), tf.float32))
images, labels = zip(*pairs, strict=True)
columns = ["partition", "samples", "version", "staleness"]
report = {
    "epochs": [run.history[columns].to_dict("records") for run in runs],
    "accuracy": float(sess.run(hit, {x: images, y_: labels})),
    "tested": len(pairs),
}
print(json.dumps(report))
