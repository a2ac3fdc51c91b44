"""Reader of TensorFlow models, without TensorFlow: GraphDef files, SavedModel folders, MetaGraphDefs with
checkpoints."""
