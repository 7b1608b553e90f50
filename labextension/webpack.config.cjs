/** Numbers by order of use: webpack's default takes them from the folder that it is built in. */
module.exports = { optimization: { moduleIds: "natural", chunkIds: "natural" } };
